#pragma once

#include <mutex>
#include <tuple>

#include "base/mutex.h"
#include "base/recently_used.h"
#include "cohort/function.h"
#include "graph/function_graph.h"
#include "graph/tracing.h"
#include "runtime/compiled_run.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The result of one run of a function's C++ code on symbols.
class Trace {
 public:
  Trace(const std::string& name, std::vector<Spec> arguments, const Device& home,
        const TracedBody& body);

  const std::vector<Spec>& arguments() const { return arguments_; }
  const GraphFunction& function() const { return *function_; }
  const std::shared_ptr<const void>& structure() const { return structure_; }
  // The body cut by devices, made at the first request; null when it runs on the caller's device
  // alone.
  const CompiledRun* parts() const;
  // The settings of objects that the code used.
  const UsedSettings& settings() const { return settings_; }
  // Whether a call may wait for another thread.
  bool may_wait() const { return may_wait_; }

 private:
  const std::vector<Spec> arguments_;
  const Device& home_;
  UsedSettings settings_;
  bool may_wait_ = false;
  std::shared_ptr<const void> structure_;
  std::shared_ptr<const GraphFunction> function_;
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const CompiledRun> parts_;
};

// The traces of a function for one kind of call: one C++ signature, in one place and on one device.
// Thread-safe; a thread that needs a trace that is being made waits for it.
class Traces {
 public:
  explicit Traces(std::string name) : name_(std::move(name)) {}

  // Null for a function that can only run as C++.
  std::shared_ptr<const Trace> find_or_make(std::span<const Tensor> arguments, const Device& home,
                                            const TracedBody& body);
  // How many traces it keeps, and for how many kinds of arguments.
  size_t size() const;
  size_t num_entries() const;
  // Forgets the trace that was not used for the longest time, and returns it.
  std::shared_ptr<const Trace> drop_oldest();

 private:
  static constexpr size_t kTracesBeforeRelaxing = 3;
  static constexpr size_t kShapesBeforeWarning = 64;

  // Null when no trace has the current settings.
  std::shared_ptr<const Trace> find(const std::string& key);
  // Finds a trace for any first size that fits these arguments, and makes it the trace for `key`.
  std::shared_ptr<const Trace> find_relaxed(const std::string& key, const std::vector<Spec>& specs);
  // Traces that have an old setting inside are never called again.
  void drop_outdated();
  void keep(const std::string& key, const std::shared_ptr<const Trace>& made);
  // The callers of the next functions hold making_.
  std::shared_ptr<const Trace> find_or_add(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body);
  std::shared_ptr<const Trace> make(const std::vector<Spec>& specs, const Device& home,
                                    const TracedBody& body);
  // A trace for any first size, unless the code needs to know it.
  std::shared_ptr<const Trace> try_relaxed(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body);
  void warn_of_shapes(size_t made, const std::vector<Spec>& last);

  const std::string name_;
  std::mutex making_;    // held by the thread that traces; before mutex_
  bool warned_ = false;  // guarded by making_
  mutable std::mutex mutex_;
  // By the key that was asked for; several keys may share a trace. Guarded by mutex_, as all below.
  RecentlyUsed<std::string, std::shared_ptr<const Trace>> traces_;
  std::vector<std::weak_ptr<const Trace>> relaxed_;
  bool untraceable_ = false;
};

// The traces of one function that were used last, at most kMaxTraces. When a trace is dropped, the
// copies on workers and servers are dropped, too. Thread-safe.
class TracedFunction {
 public:
  explicit TracedFunction(std::string name) : name_(std::move(name)) {}

  // As Traces::find_or_make.
  std::shared_ptr<const Trace> trace_for(const Flat& arguments, const TracedBody& body);
  size_t size() const;

 private:
  static constexpr size_t kMaxTraces = 256;
  static constexpr size_t kValuesBeforeWarning = 64;
  // Place, device, C++ types, kinds.
  using Kind = std::tuple<uint64_t, const Device*, size_t, std::string>;

  std::shared_ptr<Traces> traces_of(const Kind& kind);
  // Warns, once, when arguments that are not tensors are new in many calls. The caller holds the
  // mutex.
  void warn_of_values(const Kind& kind);
  void drop_oldest();

  const std::string name_;
  mutable std::mutex mutex_;
  RecentlyUsed<Kind, std::shared_ptr<Traces>> kinds_;  // guarded by mutex_, as the next
  bool warned_ = false;
};

}  // namespace cohort::internal
