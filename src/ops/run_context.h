#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "base/raise.h"
#include "ops/op.h"
#include "tensor/body.h"

namespace cohort::internal {

// A device's state, by container, kind and name. It outlives the graphs that use it: two graphs
// that name the same thing share it. Thread-safe.
class ResourceTable {
 public:
  // What `make` returns the first time, and the same object from then on.
  template <typename T, typename Make>
  std::shared_ptr<T> find_or_make(const std::string& container, const std::string& kind,
                                  const std::string& name, const Make& make) {
    const std::shared_ptr<Entry> entry = entry_of({container, kind, name});
    entry->once.call([&] { entry->resource = make(); });  // may call the user's code
    return std::static_pointer_cast<T>(entry->resource);
  }

  // Forgets what has that name, of whatever kind.
  void forget(const std::string& container, const std::string& name) {
    forget_if(
        [&](const Key& key) { return std::get<0>(key) == container && std::get<2>(key) == name; });
  }

  // Forgets everything in the container.
  void clear(const std::string& container) {
    forget_if([&](const Key& key) { return std::get<0>(key) == container; });
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Entry {
    OnceFlag once = {};
    std::shared_ptr<Resource> resource = {};  // constant once made
  };

  std::shared_ptr<Entry> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& entry = entries_[key];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    return entry;
  }

  template <typename Condition>
  void forget_if(const Condition& condition) {
    std::vector<std::shared_ptr<Entry>> ended;  // let go of after the lock: threads may end
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](auto& entry) {
      if (!condition(entry.first)) return false;
      ended.push_back(std::move(entry.second));
      return true;
    });
  }

  Mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
};

// Wakes the threads that wait inside a run when the run is over. Thread-safe.
class Cancellation {
  struct Waker;

 public:
  // The first status given stays.
  void cancel(Status status);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Throws the status once cancelled. Takes no lock.
  void check() const {
    if (cancelled()) throw Error(status_);
  }

  // Calls `wake` at once when cancelled, else when that happens. The end of the object waits for a
  // call that is under way. `wake` may take a lock, so make and end listeners without holding that
  // lock.
  class Listener {
   public:
    Listener(Cancellation& cancellation, std::function<void()> wake);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Cancellation& cancellation_;
    const std::shared_ptr<Waker> waker_;
    int id_ = 0;
  };

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  Status status_;                                 // constant once cancelled_
  std::map<int, std::shared_ptr<Waker>> wakers_;  // guarded by mutex_
  int next_id_ = 0;                               // guarded by mutex_
};

// The number of a run among those of its session, or of its function, that ask for one. It is given
// when first asked for, so that runs that do not care leave the others' numbers alone. Thread-safe.
class RunNumber {
 public:
  explicit RunNumber(std::atomic<uint64_t>& taken) : taken_(taken) {}
  uint64_t get() {
    std::call_once(once_, [&] { number_ = taken_.fetch_add(1); });
    return number_;
  }

 private:
  std::atomic<uint64_t>& taken_;
  std::once_flag once_;
  uint64_t number_ = 0;
};

// What a kernel may ask of the graph run that it is part of.
class RunContext {
 public:
  virtual ~RunContext() = default;
  virtual ResourceTable& resources() = 0;
  virtual Cancellation& cancellation() = 0;
  // Counts from 0: see RunNumber.
  virtual uint64_t run_number() = 0;
  // Runs a function's body as part of this run.
  virtual std::vector<Tensor> call(const GraphFunction& function,
                                   std::span<const Tensor> inputs) = 0;
};

// The context of a kernel that cannot do without. Throws FailedPrecondition when it runs at once.
RunContext& require_run(RunContext* run, std::string_view op);

// The state that the run's device keeps for the attributes "container" and "shared_name" of the
// kernel of `op`; make(name) makes it for the first kernel that asks.
template <typename T, typename Make>
std::shared_ptr<T> find_shared(const Kernel& k, std::string_view op, const std::string& kind,
                               const Make& make) {
  const auto& name = k.attrs.get<std::string>("shared_name");
  return require_run(k.run, op).resources().find_or_make<T>(k.attrs.get<std::string>("container"),
                                                            kind, name, [&] { return make(name); });
}

// An op that gives the handle of such state. `attrs` are its other attributes.
constexpr OpDef handle_op(std::string_view name, const AttrList& attrs,
                          Specs (*infer)(const OpInputs&), void (*compute)(Kernel&),
                          Traits traits = Trait::HasEffect) {
  return {.name = name,
          .inputs = 0,
          .dtypes = kResourceType,
          .attrs = attrs + AttrList{{"container", AttrKind::Text}, {"shared_name", AttrKind::Text}},
          .infer = infer,
          .compute = compute,
          .no_gradient_because = "a handle has no value",
          .traits = traits};
}

// What ends the waiting of a kernel: its run's, or nothing when it runs at once.
Cancellation& cancellation_of(RunContext* run);

}  // namespace cohort::internal
