#include "runtime/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "cohort/error.h"
#include "graph/tracing.h"
#include "ops/dispatch.h"

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

// The key of a trace.
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

// By argument: the devices of the captured resources.
std::map<NodeOutput, DeviceName> resource_devices(const GraphFunction& function) {
  std::map<NodeOutput, DeviceName> devices;
  const size_t own = function.num_own_arguments();
  for (size_t i = 0; i < function.captured.size(); ++i) {
    const Tensor& captured = function.captured[i];
    if (captured.dtype() != kResource || captured.is_symbolic()) continue;
    devices[function.arguments[own + i]] = DeviceName::parse(captured.device());
  }
  return devices;
}

// Whether the function uses state of another process.
bool reaches_out(const GraphFunction& function) {
  return std::ranges::any_of(function.captured, [](const Tensor& captured) {
    return !captured.is_symbolic() && remote_resource_of({&captured, 1}) != nullptr;
  });
}

bool is_elsewhere(const DeviceName& device) {
  return device.job.value_or("localhost") != "localhost";
}

// Where each node of a function's body runs when it is called on the device `home`: where the code
// asked for, else at home; a node that uses a captured variable runs where the variable is. Throws
// InvalidArgument for a device that this process does not have.
std::vector<DeviceName> function_devices(const GraphFunction& function, const DeviceName& home) {
  const std::map<NodeOutput, DeviceName> resources = resource_devices(function);
  // Nodes beside a variable of another process run at home, as the code would without a trace.
  const bool at_home = reaches_out(function);
  std::map<std::string, DeviceName> found;  // by what was asked for
  std::vector<DeviceName> devices;
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    const auto [entry, fresh] = found.try_emplace(node.device.to_string());
    if (fresh) {
      const bool stays = at_home && is_elsewhere(node.device);
      entry->second = stays ? home : find_device(node.device.filled_from(home).to_string()).name;
    }
    DeviceName device = entry->second;
    for (const NodeOutput input : node.inputs) {
      if (const auto resource = resources.find(input); resource != resources.end()) {
        device = resource->second;
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
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
  may_wait_ = has_trait(*function_->body, Trait::MayWait);
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
  std::shared_ptr<const Trace> found = find(key_of(specs));
  if (found == nullptr) {
    const std::lock_guard one_at_a_time(making_);
    found = find_or_add(specs, home, body);
  }
  if (found != nullptr) SettingsScope::note(found->settings());
  return found;
}

std::shared_ptr<const Trace> Traces::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const Trace>* const found = traces_.find(key);
  return found != nullptr && (*found)->settings().are_current() ? *found : nullptr;
}

std::shared_ptr<const Trace> Traces::find_relaxed(const std::string& key,
                                                  const std::vector<Spec>& specs) {
  const std::lock_guard lock(mutex_);
  for (const auto& relaxed : relaxed_) {
    const std::shared_ptr<const Trace> trace = relaxed.lock();
    if (trace == nullptr || !fits(trace->arguments(), specs)) continue;
    traces_.put(key, trace);
    return trace;
  }
  return nullptr;
}

void Traces::drop_outdated() {
  std::vector<std::shared_ptr<const Trace>> dropped;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  dropped = traces_.drop_if([](const auto& trace) { return !trace->settings().are_current(); });
  std::erase_if(relaxed_, [](const std::weak_ptr<const Trace>& relaxed) {
    const std::shared_ptr<const Trace> trace = relaxed.lock();
    return trace == nullptr || !trace->settings().are_current();
  });
}

void Traces::keep(const std::string& key, const std::shared_ptr<const Trace>& made) {
  const std::lock_guard lock(mutex_);
  traces_.put(key, made);
}

std::shared_ptr<const Trace> Traces::find_or_add(const std::vector<Spec>& specs, const Device& home,
                                                 const TracedBody& body) {
  {
    const std::lock_guard lock(mutex_);
    if (untraceable_) return nullptr;
  }
  const std::string key = key_of(specs);
  if (auto found = find(key)) return found;  // made while this thread waited
  drop_outdated();
  if (auto relaxed = find_relaxed(key, specs)) return relaxed;
  try {
    std::shared_ptr<const Trace> made = make(specs, home, body);
    keep(key, made);
    return made;
  } catch (const Untraceable& reason) {
    log_info("[Function] '{}' runs as C++ code, not as a graph: {}", name_, reason.message());
    const std::lock_guard lock(mutex_);
    untraceable_ = true;
    return nullptr;
  }
}

size_t Traces::size() const {
  const std::lock_guard lock(mutex_);
  std::set<const Trace*> different;
  for (const auto& entry : traces_) different.insert(entry.value.get());
  return different.size();
}

size_t Traces::num_entries() const {
  const std::lock_guard lock(mutex_);
  return traces_.size();
}

std::shared_ptr<const Trace> Traces::drop_oldest() {
  const std::lock_guard lock(mutex_);
  return traces_.drop_oldest().value_or(nullptr);
}

std::shared_ptr<const Trace> Traces::make(const std::vector<Spec>& specs, const Device& home,
                                          const TracedBody& body) {
  const size_t before = size();
  if (before == 0) {
    log_debug("[Function] tracing '{}' for {}", name_, describe(specs));
  } else {
    log_info("[Function] tracing '{}' again: the arguments {} are new (it has {} traces)", name_,
             describe(specs), before);
  }
  warn_of_shapes(before + 1, specs);
  if (before >= kTracesBeforeRelaxing) {
    if (auto relaxed = try_relaxed(specs, home, body)) return relaxed;
  }
  return std::make_shared<const Trace>(name_, specs, home, body);
}

void Traces::warn_of_shapes(size_t made, const std::vector<Spec>& last) {
  if (made < kShapesBeforeWarning || std::exchange(warned_, true)) return;
  log_warning(
      "[Function] '{}' was traced for {} different shapes of its arguments, at last {}, and is "
      "traced anew for each new one; pad them to a few shapes, or let only their first size differ",
      name_, made, describe(last));
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
  const std::lock_guard lock(mutex_);
  relaxed_.push_back(made);
  return made;
}

std::shared_ptr<const Trace> TracedFunction::trace_for(const Flat& arguments,
                                                       const TracedBody& body) {
  const Device& home = value_device();
  const std::shared_ptr<Traces> traces =
      traces_of({trace_context().place, &home, arguments.types, arguments.kinds});
  const size_t before = traces->num_entries();
  std::shared_ptr<const Trace> found = traces->find_or_make(arguments.tensors, home, body);
  if (before == 0 || traces->num_entries() > before) drop_oldest();
  return found;
}

std::shared_ptr<Traces> TracedFunction::traces_of(const Kind& kind) {
  const std::lock_guard lock(mutex_);
  if (const auto* found = kinds_.find(kind)) return *found;
  auto made = std::make_shared<Traces>(name_);
  kinds_.put(kind, made);
  warn_of_values(kind);
  return made;
}

void TracedFunction::warn_of_values(const Kind& kind) {
  if (warned_) return;
  const auto but_values = [](const Kind& of) {
    return std::tie(std::get<0>(of), std::get<1>(of), std::get<2>(of));
  };
  const auto similar = static_cast<size_t>(std::ranges::count_if(
      kinds_, [&](const auto& entry) { return but_values(entry.key) == but_values(kind); }));
  if (similar < kValuesBeforeWarning) return;
  warned_ = true;
  log_warning(
      "[Function] '{}' was traced for {} different values of an argument that is not a tensor, and "
      "is traced anew for each new one; pass a Tensor where a number changes from call to call",
      name_, similar);
}

// Drops the traces beyond the limit that were not used for the longest time.
void TracedFunction::drop_oldest() {
  std::vector<std::shared_ptr<const void>>
      dropped;  // destroyed after the lock: it has the user's data
  const std::lock_guard lock(mutex_);
  size_t all = 0;
  for (const auto& entry : kinds_) all += std::max<size_t>(1, entry.value->num_entries());
  while (all > kMaxTraces) {
    Traces& oldest = *kinds_.oldest().value;
    dropped.push_back(oldest.drop_oldest());
    --all;
    if (oldest.num_entries() > 0 || kinds_.size() == 1) continue;
    dropped.push_back(*kinds_.drop_oldest());
  }
}

size_t TracedFunction::size() const {
  const std::lock_guard lock(mutex_);
  size_t all = 0;
  for (const auto& entry : kinds_) all += entry.value->size();
  return all;
}

}  // namespace cohort::internal
