#include "cohort/function.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/log.h"
#include "base/raise.h"
#include "graph/function_graph.h"
#include "graph/serialize.h"
#include "runtime/call_plan.h"

namespace cohort::internal {
namespace {

std::string describe(std::span<const Spec> specs) {
  std::string text;
  for (const Spec& spec : specs) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", to_string(spec.dtype), spec.shape.to_string());
  }
  return "(" + text + ")";
}

// What is called, as far as it tells one trace from another.
struct Signature {
  std::vector<Spec> specs;
  std::string kinds;  // of the handles among the arguments

  explicit Signature(const Flat& arguments) : kinds(arguments.kinds) {
    for (const Tensor& argument : arguments.tensors) {
      specs.push_back({argument.dtype(), argument.shape()});
    }
  }
  std::string to_string() const {
    return kinds.empty() ? describe(specs) : describe(specs) + " with " + kinds;
  }
};

bool fits(std::span<const Spec> trace, std::span<const Spec> given) {
  if (trace.size() != given.size()) return false;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].dtype != given[i].dtype || !trace[i].shape.is_compatible_with(given[i].shape)) {
      return false;
    }
  }
  return true;
}

bool fits(const Signature& trace, const Signature& given) {
  return trace.kinds == given.kinds && fits(trace.specs, given.specs);
}

// The same with the first size of every argument unknown, where it has one.
Signature with_unknown_batch(Signature relaxed) {
  for (Spec& spec : relaxed.specs) {
    if (spec.shape.has_rank() && spec.shape.rank() > 0) {
      spec.shape = spec.shape.with(0, Shape::kUnknownDim);
    }
  }
  return relaxed;
}

// Whether a tape may want to see what happens inside: it watches an argument, or would watch a
// variable that the function reads.
bool is_recorded(const GraphFunction& function, std::span<const Tensor> arguments) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (!function.captured.empty() || recorder->wants(arguments)) return true;
  }
  return false;
}

struct Trace {
  Signature signature;
  std::shared_ptr<const GraphFunction> function;
};

std::shared_ptr<const Trace> make_trace(const std::string& name, Signature signature,
                                        const FunctionBody& body) {
  const RecordingPause pause;  // what is traced is recorded when it is called, not now
  auto function = trace(name, signature.specs, body);
  return std::make_shared<Trace>(Trace{std::move(signature), std::move(function)});
}

}  // namespace

class TracedFunction {
 public:
  explicit TracedFunction(std::string name) : name_(std::move(name)) {}

  std::shared_ptr<const Trace> trace_for(const Flat& arguments, const FunctionBody& body) {
    const Signature signature(arguments);
    const std::lock_guard lock(mutex_);
    const std::string key = signature.to_string();
    if (const auto found = traces_.find(key); found != traces_.end()) return found->second;
    for (const auto& relaxed : relaxed_) {
      if (fits(relaxed->signature, signature)) return traces_[key] = relaxed;
    }
    return traces_[key] = add(signature, body);
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  static constexpr size_t kTracesBeforeRelaxing = 3;

  // The mutex is held.
  std::shared_ptr<const Trace> add(const Signature& signature, const FunctionBody& body) {
    if (made_ == 0) {
      log_debug("[Function] tracing '{}' for {}", name_, signature.to_string());
    } else {
      log_info("[Function] tracing '{}' again: the arguments {} are new (it has {} traces)", name_,
               signature.to_string(), made_);
    }
    if (made_ >= kTracesBeforeRelaxing) {
      if (auto relaxed = try_relaxed(signature, body)) return relaxed;
    }
    auto made = make_trace(name_, signature, body);
    ++made_;
    return made;
  }

  // A trace for any first size, unless the code needs to know it.
  std::shared_ptr<const Trace> try_relaxed(const Signature& signature, const FunctionBody& body) {
    std::shared_ptr<const Trace> made;
    const Status status =
        capture_status([&] { made = make_trace(name_, with_unknown_batch(signature), body); });
    if (!status.ok()) {
      log_debug("[Function] '{}' needs its first sizes: {}", name_, status.message);
      return nullptr;
    }
    ++made_;
    relaxed_.push_back(made);
    return made;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Trace>> traces_;  // by what was asked for
  std::vector<std::shared_ptr<const Trace>> relaxed_;
  size_t made_ = 0;
};

FunctionCore::FunctionCore(std::string name)
    : traces_(std::make_shared<TracedFunction>(std::move(name))) {}

std::vector<Tensor> FunctionCore::call(const Flat& arguments, const FunctionBody& body) const {
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  const GraphFunction& function = *trace->function;
  if (thread_dispatch().builder != nullptr || is_recorded(function, arguments.tensors)) {
    return call_inline(function, arguments.tensors);
  }
  Cancellation cancellation;
  CallContext context(nullptr, cancellation);
  return context.call_with_captures(function, arguments.tensors);
}

std::string FunctionCore::serialize(const Flat& arguments, const FunctionBody& body) const {
  return serialize_function(*traces_->trace_for(arguments, body)->function);
}

size_t FunctionCore::num_traces() const { return traces_->size(); }

}  // namespace cohort::internal
