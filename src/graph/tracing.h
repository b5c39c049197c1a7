#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/thread_context.h"
#include "cohort/error.h"

namespace cohort::internal {

// Puts the calls of traced functions that write the same state into one order. Thread-safe.
class EffectOrder {
 public:
  virtual ~EffectOrder() = default;
  // Waits until this thread's call may write, or throws FailedPrecondition where other workers
  // would see another order. The turn of the call lasts as long as the result lives. `may_wait`:
  // the call may wait for another thread, such as one that produces an element of a dataset.
  virtual std::shared_ptr<void> enter(bool may_wait) = 0;
};

using EffectOrders = std::vector<std::shared_ptr<EffectOrder>>;

// The settings that a trace used, such as a learning rate, with the version of each that it saw;
// and the orders in which its calls take turns.
class UsedSettings {
 public:
  using Version = std::shared_ptr<const std::atomic<uint64_t>>;
  void add(Version version);
  void add(std::shared_ptr<EffectOrder> order);
  void add(const UsedSettings& others);
  // False once one of the settings has changed: the trace has an old value inside.
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

// A setting of an object that code under a trace turns into a constant. Code that reads the
// setting calls use(), and code that changes it calls changed(): then the functions that used the
// setting are traced anew.
class TracedSetting {
 public:
  void use() const;
  void changed() { version_->fetch_add(1); }
  // How often it has changed.
  uint64_t version() const { return version_->load(); }

 private:
  std::shared_ptr<std::atomic<uint64_t>> version_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// While it lives, notes the settings that this thread uses, and the replicas that it runs.
class [[nodiscard]] SettingsScope {
 public:
  SettingsScope();
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

  const UsedSettings& used() const { return used_; }
  // Notes that this thread calls a trace that used these settings: a trace that is being made
  // around the call uses them, too.
  static void note(const UsedSettings& settings);
  // Notes the order for the writes of the function that this thread traces, if it traces one.
  static void note(const std::shared_ptr<EffectOrder>& order);

 private:
  friend class TracedSetting;
  // Does nothing outside all scopes.
  template <typename Use>
  static void note_innermost(const Use& use);

  Mutex mutex_;  // replicas note at the same time
  UsedSettings used_;
  const ContextValue<SettingsScope*> innermost_;
};

// Where this thread runs. A function that is traced in one place may do something else in another
// (another replica reads other copies of variables), so each place has its own traces.
struct TraceContext {
  uint64_t place = 0;       // 0 outside every replica and worker
  bool in_replica = false;  // one of several: ops may exchange values with other threads
};
TraceContext& trace_context();

// Thrown in code that is being traced and can only run as C++. `function()` then
// runs the code as it is; elsewhere this is an error like any other.
class Untraceable : public Error {
 public:
  using Error::Error;
};

}  // namespace cohort::internal
