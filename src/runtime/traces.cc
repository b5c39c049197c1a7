#include "runtime/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "cohort/error.h"
#include "graph/trace_context.h"
#include "graph/untraceable.h"
#include "ops/dispatch.h"
#include "runtime/function_devices.h"

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

}  // namespace

Trace::Trace(const std::string& name, std::vector<Spec> arguments, const Device& home,
             const TracedBody& body)
    : arguments_(std::move(arguments)), home_(home) {
  const RecordingPause pause;  // what is traced is recorded when it is called, not now
  const SettingsScope noting;
  function_ = trace(name, arguments_, [&](std::span<const Tensor> symbols) {
    TracedResults traced = body(symbols);
    structure_ = std::move(traced.structure);
    return std::move(traced.tensors);
  });
  settings_ = noting.used();
}

const CompiledRun* Trace::parts() const {
  compile_once_.call([&] {
    const std::vector<DeviceName> devices = function_devices(*function_, home_.name);
    const bool at_home = std::all_of(devices.begin(), devices.end(), [&](const DeviceName& device) {
      return device == home_.name;
    });
    if (at_home) return;
    parts_ = compile_parts(*function_->body, devices,
                           {.feeds = function_->arguments,
                            .fetches = function_->results,
                            .targets = function_->effects});
  });
  return parts_.get();
}

std::shared_ptr<const Trace> Traces::find_or_make(std::span<const Tensor> arguments,
                                                  const Device& home, const TracedBody& body) {
  std::vector<Spec> specs;
  for (const Tensor& argument : arguments) specs.push_back({argument.dtype(), argument.shape()});
  const std::lock_guard lock(mutex_);
  if (untraceable_) return nullptr;
  const std::shared_ptr<const Trace> found = find_or_add(specs, home, body);
  if (found != nullptr) SettingsScope::note(found->settings());
  return found;
}

void Traces::drop_outdated() {
  const auto is_outdated = [](const std::shared_ptr<const Trace>& trace) {
    return !trace->settings().are_current();
  };
  std::set<const Trace*> dropped;
  std::erase_if(traces_, [&](const auto& entry) {
    if (!is_outdated(entry.second)) return false;
    dropped.insert(entry.second.get());
    return true;
  });
  std::erase_if(relaxed_, is_outdated);
  made_ -= dropped.size();
}

std::shared_ptr<const Trace> Traces::find_or_add(const std::vector<Spec>& specs, const Device& home,
                                                 const TracedBody& body) {
  const std::string key = key_of(specs);
  const auto found = traces_.find(key);
  if (found != traces_.end() && found->second->settings().are_current()) return found->second;
  drop_outdated();
  for (const auto& relaxed : relaxed_) {
    if (fits(relaxed->arguments(), specs)) return traces_[key] = relaxed;
  }
  try {
    return traces_[key] = add(specs, home, body);
  } catch (const Untraceable& reason) {
    log_info("[Function] '{}' runs as C++ code, not as a graph: {}", name_, reason.message());
    untraceable_ = true;
    return nullptr;
  }
}

size_t Traces::size() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::shared_ptr<const Trace> Traces::add(const std::vector<Spec>& specs, const Device& home,
                                         const TracedBody& body) {
  if (made_ == 0) {
    log_debug("[Function] tracing '{}' for {}", name_, describe(specs));
  } else {
    log_info("[Function] tracing '{}' again: the arguments {} are new (it has {} traces)", name_,
             describe(specs), made_);
  }
  if (made_ >= kTracesBeforeRelaxing) {
    if (auto relaxed = try_relaxed(specs, home, body)) return relaxed;
  }
  auto made = std::make_shared<const Trace>(name_, specs, home, body);
  ++made_;
  return made;
}

std::shared_ptr<const Trace> Traces::try_relaxed(const std::vector<Spec>& specs, const Device& home,
                                                 const TracedBody& body) {
  std::shared_ptr<const Trace> made;
  const Status status = capture_status(
      [&] { made = std::make_shared<const Trace>(name_, with_unknown_batch(specs), home, body); });
  if (!status.ok()) {
    log_debug("[Function] '{}' needs its first sizes: {}", name_, status.message);
    return nullptr;
  }
  ++made_;
  relaxed_.push_back(made);
  return made;
}

std::shared_ptr<const Trace> TracedFunction::trace_for(const Flat& arguments,
                                                       const TracedBody& body) {
  const Device& home = value_device();
  Traces* traces = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const Kind kind{trace_context().place, &home, arguments.types, arguments.kinds};
    traces = &kinds_.try_emplace(kind, name_).first->second;
  }
  return traces->find_or_make(arguments.tensors, home, body);
}

size_t TracedFunction::size() const {
  const std::lock_guard lock(mutex_);
  size_t all = 0;
  for (const auto& [kind, traces] : kinds_) all += traces.size();
  return all;
}

}  // namespace cohort::internal
