#include "cohort/function.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/lru_cache.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "graph/serialize_graph.h"
#include "graph/tracing.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"
#include "runtime/compiled_trace.h"
#include "runtime/graph_run.h"

namespace cohort::internal {
namespace {

// The specs with the first size of every argument unknown, where it has one.
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

// The traces of a function for one kind of call: one C++ signature, in one place and on one device.
// Thread-safe; a thread that needs a trace that is being made waits for it.
class Traces {
 public:
  explicit Traces(std::string name) : name_(std::move(name)) {}

  // Null for a function that can only run as C++.
  std::shared_ptr<const Trace> find_or_make(std::span<const Tensor> arguments, const Device& home,
                                            const TracedBody& body) {
    const Specs specs = specs_of(arguments);
    std::shared_ptr<const Trace> found = find(to_string(specs));
    if (found == nullptr) {
      const std::lock_guard one_at_a_time(making_);
      found = find_or_add(specs, home, body);
    }
    if (found != nullptr) SettingsScope::note(found->settings());
    return found;
  }

  // How many traces it keeps, and for how many kinds of arguments.
  size_t size() const {
    const std::lock_guard lock(mutex_);
    std::set<const Trace*> different;
    for (const auto& entry : traces_) different.insert(entry.value.get());
    return different.size();
  }

  size_t num_entries() const {
    const std::lock_guard lock(mutex_);
    return traces_.size();
  }

  // Forgets the trace that was not used for the longest time, and returns it.
  std::shared_ptr<const Trace> drop_oldest() {
    const std::lock_guard lock(mutex_);
    return traces_.drop_oldest().value_or(nullptr);
  }

 private:
  static constexpr size_t kTracesBeforeRelaxing = 3;
  static constexpr size_t kShapesBeforeWarning = 64;

  // Null when no trace has the current settings.
  std::shared_ptr<const Trace> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<const Trace>* const found = traces_.find(key);
    return found != nullptr && (*found)->settings().are_current() ? *found : nullptr;
  }

  // Finds a trace for any first size that fits these arguments, and makes it the trace for `key`.
  std::shared_ptr<const Trace> find_relaxed(const std::string& key,
                                            const std::vector<Spec>& specs) {
    const std::lock_guard lock(mutex_);
    for (const auto& relaxed : relaxed_) {
      const std::shared_ptr<const Trace> trace = relaxed.lock();
      const bool fits = trace != nullptr &&
                        std::ranges::equal(trace->arguments(), specs, &Spec::is_compatible_with);
      if (!fits) continue;
      traces_.put(key, trace);
      return trace;
    }
    return nullptr;
  }

  // Traces that have an old setting inside are never called again.
  void drop_outdated() {
    std::vector<std::shared_ptr<const Trace>> dropped;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    dropped = traces_.drop_if([](const auto& trace) { return !trace->settings().are_current(); });
    std::erase_if(relaxed_, [](const std::weak_ptr<const Trace>& relaxed) {
      const std::shared_ptr<const Trace> trace = relaxed.lock();
      return trace == nullptr || !trace->settings().are_current();
    });
  }

  // The callers of the next functions hold making_.
  std::shared_ptr<const Trace> find_or_add(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body) {
    {
      const std::lock_guard lock(mutex_);
      if (untraceable_) return nullptr;
    }
    const std::string key = to_string(specs);
    if (auto found = find(key)) return found;  // made while this thread waited
    drop_outdated();
    if (auto relaxed = find_relaxed(key, specs)) return relaxed;
    try {
      std::shared_ptr<const Trace> made = make(specs, home, body);
      const std::lock_guard lock(mutex_);
      traces_.put(key, made);
      return made;
    } catch (const Untraceable& reason) {
      log_info("[Function] '{}' runs as C++ code, not as a graph: {}", name_, reason.message());
      const std::lock_guard lock(mutex_);
      untraceable_ = true;
      return nullptr;
    }
  }

  std::shared_ptr<const Trace> make(const std::vector<Spec>& specs, const Device& home,
                                    const TracedBody& body) {
    const size_t before = size();
    if (before == 0) {
      log_debug("[Function] tracing '{}' for {}", name_, to_string(specs));
    } else {
      // A function whose arguments are new in each step is traced in each step.
      log_at(before < kTracesBeforeRelaxing ? LogLevel::Info : LogLevel::Debug,
             "[Function] tracing '{}' again: the arguments {} are new (it has {} traces)", name_,
             to_string(specs), before);
    }
    warn_of_shapes(before + 1, specs);
    if (before >= kTracesBeforeRelaxing) {
      if (auto relaxed = try_relaxed(specs, home, body)) return relaxed;
    }
    return std::make_shared<const Trace>(name_, specs, home, body);
  }

  // A trace for any first size, unless the code needs to know it.
  std::shared_ptr<const Trace> try_relaxed(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body) {
    std::shared_ptr<const Trace> made;
    const Status status = capture_status([&] {
      made = std::make_shared<const Trace>(name_, with_unknown_batch(specs), home, body);
    });
    if (!status.ok()) {
      log_debug("[Function] '{}' needs its first sizes: {}", name_, status.message);
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    relaxed_.push_back(made);
    return made;
  }

  void warn_of_shapes(size_t made, const std::vector<Spec>& last) {
    if (made < kShapesBeforeWarning || std::exchange(warned_, true)) return;
    log_warning(
        "[Function] '{}' was traced for {} different shapes of its arguments, at last {}, and is "
        "traced anew for each new one; pad them to a few shapes, or let only their first size "
        "differ",
        name_, made, to_string(last));
  }

  const std::string name_;
  Turn making_;          // of the thread that traces, which runs the user's code; before mutex_
  bool warned_ = false;  // guarded by making_
  mutable Mutex mutex_;
  // By the key that was asked for; several keys may share a trace. Guarded by mutex_, as all below.
  LruCache<std::string, std::shared_ptr<const Trace>> traces_;
  std::vector<std::weak_ptr<const Trace>> relaxed_;
  bool untraceable_ = false;
};

// The traces of one function that were used last, at most kMaxTraces. When a trace is dropped, the
// copies on workers and servers are dropped, too. Thread-safe.
class TracedFunction {
 public:
  explicit TracedFunction(std::string name) : name_(std::move(name)) {}

  // As Traces::find_or_make.
  std::shared_ptr<const Trace> trace_for(const Flat& arguments, const TracedBody& body) {
    const Device& home = value_device();
    const TraceContext& at = trace_context();
    const std::shared_ptr<Traces> traces =
        traces_of({at.place, at.for_workers, &home, arguments.types, arguments.kinds});
    const size_t before = traces->num_entries();
    std::shared_ptr<const Trace> found = traces->find_or_make(arguments.tensors, home, body);
    if (before == 0 || traces->num_entries() > before) drop_oldest();
    return found;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    size_t all = 0;
    for (const auto& entry : kinds_) all += entry.value->size();
    return all;
  }

 private:
  static constexpr size_t kMaxTraces = 256;
  static constexpr size_t kValuesBeforeWarning = 64;
  // Place, whether other processes will run it, device, C++ types, kinds.
  using Kind = std::tuple<uint64_t, bool, const Device*, size_t, std::string>;

  std::shared_ptr<Traces> traces_of(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    if (const auto* found = kinds_.find(kind)) return *found;
    auto made = std::make_shared<Traces>(name_);
    kinds_.put(kind, made);
    warn_of_values(kind);
    return made;
  }

  // Warns, once, when arguments that are not tensors are new in many calls. The caller holds the
  // mutex.
  void warn_of_values(const Kind& kind) {
    if (warned_) return;
    const auto but_values = [](const Kind& of) {
      return std::tie(std::get<0>(of), std::get<1>(of), std::get<2>(of), std::get<3>(of));
    };
    const auto similar = static_cast<size_t>(std::ranges::count_if(
        kinds_, [&](const auto& entry) { return but_values(entry.key) == but_values(kind); }));
    if (similar < kValuesBeforeWarning) return;
    warned_ = true;
    log_warning(
        "[Function] '{}' was traced for {} different values of an argument that is not a tensor, "
        "and is traced anew for each new one; pass a Tensor where a number changes from call to "
        "call",
        name_, similar);
  }

  // Drops the traces beyond the limit that were not used for the longest time.
  void drop_oldest() {
    // Destroyed after the lock, because they have the user's data.
    std::vector<std::shared_ptr<const void>> dropped;
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

  const std::string name_;
  mutable Mutex mutex_;
  LruCache<Kind, std::shared_ptr<Traces>> kinds_;  // guarded by mutex_, as the next
  bool warned_ = false;
};

namespace {

// Whether a tape may want to see what happens inside: it watches an argument, or would watch a
// variable that the function reads.
bool is_recorded(const GraphFunction& function, std::span<const Tensor> arguments) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (!function.captured.empty() || recorder->wants(arguments)) return true;
  }
  return false;
}

std::vector<Tensor> run_trace(const Trace& trace, const std::vector<Tensor>& arguments) {
  const GraphFunction& function = trace.function();
  const bool is_building = thread_dispatch().builder != nullptr;
  std::vector<std::shared_ptr<void>> turns;
  if (!is_building) {
    for (const auto& order : trace.settings().orders()) {
      turns.push_back(order->enter(trace.may_wait()));
    }
  }
  if (is_building || is_recorded(function, arguments)) {
    return call_inline(function, arguments, function.calls()++);
  }
  // A replica runs everything on its own thread: another thread cannot meet the other replicas.
  const CompiledRun* parts = trace_context().in_replica ? nullptr : trace.parts();
  if (parts != nullptr) {
    return run_parts(
        *parts, with_captures(function, arguments),
        {.cancellation = std::make_shared<Cancellation>(), .numbered_runs = function.calls()});
  }
  Cancellation cancellation;
  CallContext context(nullptr, cancellation, function.calls());
  return context.call(function, with_captures(function, arguments));
}

// Tells apart the variables that functions were called with. An address is not enough: a variable
// may be made where an ended one was, and must not get the traces of that one.
class VariableNumbers {
 public:
  uint64_t of(const std::shared_ptr<VariableImpl>& variable) {
    const std::lock_guard lock(mutex_);
    const auto known = numbers_.find(variable);
    if (known != numbers_.end()) return known->second;
    std::erase_if(numbers_, [](const auto& entry) { return entry.first.expired(); });
    return numbers_[variable] = next_++;
  }

 private:
  Mutex mutex_;
  uint64_t next_ = 0;
  std::map<std::weak_ptr<const VariableImpl>, uint64_t, std::owner_less<>> numbers_;
};

}  // namespace

std::span<const Tensor> span_of(const std::vector<Tensor>& tensors) { return tensors; }

void append(std::vector<Tensor>& all, const Tensor& tensor) { all.push_back(tensor); }

void append(std::vector<Gradient>& all, const Gradient& gradient) { all.push_back(gradient); }

void LeafTensors<Tensor>::collect(const Tensor& leaf, std::vector<Tensor>& flat) {
  flat.push_back(leaf);
}

Tensor LeafTensors<Tensor>::replace(const Tensor&, std::span<const Tensor> flat, size_t& next) {
  return flat[next++];
}

void LeafTensors<IndexedSlices>::collect(const IndexedSlices& leaf, std::vector<Tensor>& flat) {
  flat.push_back(leaf.values);
  flat.push_back(leaf.indices);
}

void LeafTensors<IndexedSlices>::describe(const IndexedSlices& leaf, std::string& text) {
  text += leaf.dense_shape.to_string();
}

IndexedSlices LeafTensors<IndexedSlices>::replace(const IndexedSlices& like,
                                                  std::span<const Tensor> flat, size_t& next) {
  next += 2;
  return {flat[next - 2], flat[next - 1], like.dense_shape};
}

void LeafTensors<Gradient>::collect(const Gradient& leaf, std::vector<Tensor>& flat) {
  if (leaf.is_sparse()) {
    LeafTensors<IndexedSlices>::collect(leaf.slices(), flat);
  } else if (leaf.defined()) {
    flat.push_back(leaf.dense());
  }
}

void LeafTensors<Gradient>::describe(const Gradient& leaf, std::string& text) {
  text += leaf.is_sparse() ? 's' : leaf.defined() ? 'd' : 'u';
  if (leaf.is_sparse()) LeafTensors<IndexedSlices>::describe(leaf.slices(), text);
}

Gradient LeafTensors<Gradient>::replace(const Gradient& like, std::span<const Tensor> flat,
                                        size_t& next) {
  if (like.is_sparse()) return LeafTensors<IndexedSlices>::replace(like.slices(), flat, next);
  return like.defined() ? Gradient(flat[next++]) : Gradient();
}

void describe_constant(const std::string& value, std::string& text) {
  text += std::to_string(value.size()) + ":" + value;
}

void describe_constant(const Variable& value, std::string& text) {
  static VariableNumbers numbers;
  describe_constant(numbers.of(VariableAccess::impl(value)), text);
}

FunctionCore::FunctionCore(std::string name)
    : traces_(std::make_shared<TracedFunction>(std::move(name))) {}

TracedResults FunctionCore::call(const Flat& arguments, const TracedBody& body) const {
  // Replicas that build one graph meet in that graph. A trace of one replica cannot express this.
  if (thread_dispatch().builder != nullptr && trace_context().in_replica) {
    return body(arguments.tensors);
  }
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  if (trace == nullptr) return body(arguments.tensors);
  return {run_trace(*trace, arguments.tensors), trace->structure()};
}

std::string FunctionCore::serialize(const Flat& arguments, const TracedBody& body) const {
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  if (trace != nullptr) return serialize_function(trace->function());
  raise(Code::FailedPrecondition,
        "[Function] the function cannot be sent: it merges replicas in C++ code, which only this "
        "process has");
}

std::shared_ptr<const Trace> FunctionCore::trace(const Flat& arguments,
                                                 const TracedBody& body) const {
  return traces_->trace_for(arguments, body);
}

size_t FunctionCore::num_traces() const { return traces_->size(); }

}  // namespace cohort::internal
