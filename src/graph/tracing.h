#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread_context.h"
#include "cohort/error.h"

namespace cohort::internal {

// Puts the calls of traced functions that write the same state into one order. Thread-safe.
class EffectOrder {
 public:
  virtual ~EffectOrder() = default;
  // Waits until this thread's call may write, or throws FailedPrecondition if other workers would
  // see another order. The call has its turn until the result is destroyed. `may_wait`: the call
  // may wait for another thread, such as one that produces an element of a dataset.
  virtual std::shared_ptr<void> enter(bool may_wait) = 0;
};

using EffectOrders = std::vector<std::shared_ptr<EffectOrder>>;

// The settings that a trace used, such as a learning rate, each with its version at that time, and
// the orders in which the calls of the trace take turns.
class UsedSettings {
 public:
  using Version = std::shared_ptr<const std::atomic<uint64_t>>;
  void add(Version version);
  void add(std::shared_ptr<EffectOrder> order);
  void add(const UsedSettings& others);
  // False once one of the settings has changed: the trace contains the old value.
  bool are_current() const;
  const EffectOrders& orders() const { return orders_; }

 private:
  struct Use {
    Version version;
    uint64_t seen;
  };
  std::vector<Use> uses_;
  EffectOrders orders_;
};

// A setting of an object that becomes a constant in a trace. Code that reads the setting calls
// use(). Code that changes the setting calls changed(); the functions that used it are then traced
// again.
class TracedSetting {
 public:
  void use() const;
  void changed() { version_->fetch_add(1); }
  // How often it has changed.
  uint64_t version() const { return version_->load(); }

 private:
  std::shared_ptr<std::atomic<uint64_t>> version_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// A SettingsScope records the settings that this thread, and the replicas that it runs, use.
class [[nodiscard]] SettingsScope {
 public:
  SettingsScope();

  const UsedSettings& used() const { return used_; }
  // Records that this thread calls a trace that used these settings: an outer trace that is being
  // made uses them, too.
  static void note(const UsedSettings& settings);
  // Records the order for the writes of the function that this thread traces, if it traces one.
  static void note(const std::shared_ptr<EffectOrder>& order);

 private:
  friend class TracedSetting;
  // Does nothing outside all scopes.
  template <typename Use>
  static void note_innermost(const Use& use);

  Mutex mutex_;  // replicas record at the same time
  UsedSettings used_;
  const ContextValue<SettingsScope*> innermost_;
};

// Where this thread runs. A function that is traced in one place may do something else in another
// (another replica reads other copies of variables), so each place has its own traces.
struct TraceContext {
  uint64_t place = 0;       // 0 outside every replica and worker
  bool in_replica = false;  // one of several: ops may exchange values with other threads
  bool for_workers = false;
};
TraceContext& trace_context();

// While it lives, this thread traces code that other processes will run. The trace may differ from
// that of a call in this process: synchronous training collects the gradients of several workers.
class [[nodiscard]] TracingForWorkers {
 public:
  TracingForWorkers() : before_(std::exchange(trace_context().for_workers, true)) {}
  ~TracingForWorkers() { trace_context().for_workers = before_; }
  TracingForWorkers(const TracingForWorkers&) = delete;
  TracingForWorkers& operator=(const TracingForWorkers&) = delete;

  // Whether this thread has such a scope open.
  static bool active() { return trace_context().for_workers; }

 private:
  const bool before_;
};

// Thrown by code that can run only as C++, if it is being traced. `function()` then runs the code
// as it is. Elsewhere this is an ordinary error.
class Untraceable : public Error {
 public:
  using Error::Error;
};

}  // namespace cohort::internal
