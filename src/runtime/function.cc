#include "cohort/function.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/log.h"
#include "base/raise.h"
#include "graph/function_graph.h"
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

// What tells one trace from another.
std::string key_of(std::span<const Spec> specs) { return describe(specs); }

bool fits(std::span<const Spec> trace, std::span<const Spec> given) {
  if (trace.size() != given.size()) return false;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].dtype != given[i].dtype || !trace[i].shape.is_compatible_with(given[i].shape)) {
      return false;
    }
  }
  return true;
}

// The same with the first size of every argument unknown, where it has one.
std::vector<Spec> with_unknown_batch(std::span<const Spec> specs) {
  std::vector<Spec> relaxed(specs.begin(), specs.end());
  for (Spec& spec : relaxed) {
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
  std::vector<Spec> arguments;
  std::shared_ptr<const GraphFunction> function;
};

std::shared_ptr<const Trace> make_trace(const std::string& name, std::vector<Spec> arguments,
                                        const FunctionBody& body) {
  auto made = std::make_shared<Trace>();
  {
    const RecordingPause pause;  // what is traced is recorded when it is called, not now
    made->function = trace(name, arguments, body);
  }
  made->arguments = std::move(arguments);
  return made;
}

// A call has no session: no table of named state, no other part to exchange tensors with.
class CallContext : public FunctionCaller {
 public:
  explicit CallContext(const GraphFunction& function) : number_(function.calls()) {}
  ResourceTable& resources() override {
    raise(Code::FailedPrecondition, "[Function] named state needs a session");
  }
  Cancellation& cancellation() override { return cancellation_; }
  EdgeTable& edges() override { raise(Code::Internal, "[Function] a call has one part"); }
  uint64_t run_number() override { return number_.get(); }

 private:
  RunNumber number_;
  Cancellation cancellation_;
};

}  // namespace

class TracedFunction {
 public:
  explicit TracedFunction(std::string name) : name_(std::move(name)) {}

  std::shared_ptr<const Trace> trace_for(const std::vector<Tensor>& arguments,
                                         const FunctionBody& body) {
    std::vector<Spec> specs;
    for (const Tensor& argument : arguments) specs.push_back({argument.dtype(), argument.shape()});
    const std::lock_guard lock(mutex_);
    const std::string key = key_of(specs);
    if (const auto found = traces_.find(key); found != traces_.end()) return found->second;
    for (const auto& relaxed : relaxed_) {
      if (fits(relaxed->arguments, specs)) return traces_[key] = relaxed;
    }
    return traces_[key] = add(specs, body);
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  static constexpr size_t kTracesBeforeRelaxing = 3;

  // The mutex is held.
  std::shared_ptr<const Trace> add(const std::vector<Spec>& specs, const FunctionBody& body) {
    if (made_ == 0) {
      log_debug("[Function] tracing '{}' for {}", name_, describe(specs));
    } else {
      log_info("[Function] tracing '{}' again: the arguments {} are new (it has {} traces)", name_,
               describe(specs), made_);
    }
    if (made_ >= kTracesBeforeRelaxing) {
      if (auto relaxed = try_relaxed(specs, body)) return relaxed;
    }
    auto made = make_trace(name_, specs, body);
    ++made_;
    return made;
  }

  // A trace for any first size, unless the code needs to know it.
  std::shared_ptr<const Trace> try_relaxed(const std::vector<Spec>& specs,
                                           const FunctionBody& body) {
    std::shared_ptr<const Trace> made;
    const Status status =
        capture_status([&] { made = make_trace(name_, with_unknown_batch(specs), body); });
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

std::vector<Tensor> FunctionCore::call(const std::vector<Tensor>& arguments,
                                       const FunctionBody& body) const {
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  const GraphFunction& function = *trace->function;
  std::vector<Tensor> all = arguments;
  all.insert(all.end(), function.captured.begin(), function.captured.end());
  if (thread_dispatch().builder != nullptr || is_recorded(function, arguments)) {
    return call_inline(function, arguments, function.calls()++);
  }
  CallContext context(function);
  return context.call(function, all);
}

size_t FunctionCore::num_traces() const { return traces_->size(); }

}  // namespace cohort::internal
