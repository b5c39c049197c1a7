#include "distribute/contexts/replica_threads.h"

#include <fmt/format.h>

#include <atomic>
#include <cctype>
#include <deque>
#include <map>
#include <optional>

#include "base/hash.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/thread.h"
#include "base/thread_context.h"
#include "base/timeline.h"
#include "cohort/device.h"
#include "cohort/graph.h"
#include "cohort/internal/torch_random.h"
#include "cohort/random.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "distribute/strategies/strategy_impl.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"
#include "tensor/devices.h"
#include "tensor/kernel_library.h"
#include "variables/variable_creators.h"

namespace cohort {

void internal::run_replicas(Strategy& strategy, const std::function<void(ReplicaContext&)>& body) {
  const StrategyScope inside(strategy);
  strategy.extended().call_for_each_replica(body);
}

void StrategyExtended::call_for_each_replica(const std::function<void(ReplicaContext&)>& body) {
  internal::require_cross_replica_or_default(strategy(), "call_for_each_replica");
  impl_->threads.run(strategy(), body);
}

namespace internal {

// The random numbers of the replicas of one run. Those of a replica depend on the caller's
// generator and the replica's id alone, so that replicas differ and a seed repeats them.
class ReplicaRandom {
 public:
  // Takes one number from the caller's generator, and one from torch's.
  ReplicaRandom() : origin_(random::default_generator().split()), torch_(draw_torch_seed()) {}

  random::Generator of(int replica_id) const {
    random::Generator origin = origin_;
    for (int i = 0; i < replica_id; ++i) origin.split();
    return origin.split();
  }

  // The seed of torch's functions in the replica, by SplitMix64: neighbouring ids give seeds
  // without anything in common.
  uint64_t torch_seed_of(int replica_id) const {
    return mix64(torch_ + (static_cast<uint64_t>(replica_id) + 1) * kSplitMixStep);
  }

 private:
  random::Generator origin_;
  uint64_t torch_;
};

namespace {

// Throws InvalidArgument when the replica asks for something else than replica 0 did. What only
// calling the initializer could tell is not compared: the initial value is computed once.
void check_same(size_t replica, const Variable& made, const VariableRequest& request) {
  const VariableOptions& options = request.options;
  const auto* constant = request.initializer.target<ConstantInitializer>();
  const DType dtype = options.dtype.value_or(constant ? constant->value.dtype() : made.dtype());
  const Shape known = constant != nullptr ? constant->value.shape() : made.shape();
  const Shape shape = options.shape.has_rank() ? options.shape : known;
  if (dtype == made.dtype() && shape == made.shape()) return;
  raise(Code::InvalidArgument,
        "[Variable] replica {} makes variable '{}' as {} {}, but replica 0 made it as {} {}; all "
        "replicas must make the same variables",
        replica, made.name(), to_string(dtype), shape.to_string(), to_string(made.dtype()),
        made.shape().to_string());
}

// What tells the variables of a run apart, besides the order in which a replica asks.
std::string key_of(const VariableRequest& request) {
  std::string name = canonical_variable_name(request.options.name);
  const auto* first_call = request.initializer.target<FirstCallInitializer>();
  return first_call == nullptr ? name : fmt::format("{} of layer {}", name, first_call->layer);
}

}  // namespace

std::string canonical_variable_name(std::string name) {
  if (name.empty()) return "Variable";
  std::string canonical;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] == '_' && i + 1 < name.size() &&
                       std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0;
    if (digit && (i + 2 == name.size() || name[i + 2] == '/')) {
      ++i;
    } else {
      canonical += name[i];
    }
  }
  return canonical;
}

// The variables that the replicas of one run make. Replica 0 makes them; the others get, for the
// k-th variable of a name that they ask for, the k-th that replica 0 made. The first call of a
// layer counts for itself (FirstCallInitializer). Thread-safe.
class SharedVariables {
 public:
  SharedVariables(ReplicaRendezvous& rendezvous, size_t replicas)
      : rendezvous_(rendezvous), asked_(replicas) {}

  // Forgets what was made; before a run.
  void begin() {
    made_.clear();
    for (auto& counts : asked_) counts.clear();
  }

  Variable make(size_t replica, const NextCreator& next, const VariableRequest& request) {
    const std::string name = key_of(request);
    return replica == 0 ? make_first(name, next, request) : find(replica, name, request);
  }

  // After a run: warns when, for the second time, a run made a variable that is gone now. What the
  // first run makes for all later ones is kept by the program.
  void warn_of_lost_variables() {
    const Variable* const lost = find_lost();
    if (lost == nullptr || ++runs_that_lost_ != 2) return;
    log_warning(
        "[Variable] a step makes variable '{}' in each run(), and nothing keeps the variable: its "
        "value is lost at the end of the run, and all replicas began with replica 0's initial "
        "value; make the variable once, in the strategy's scope outside run(), or use a Tensor "
        "for a value of one step",
        lost->name());
  }

 private:
  Variable make_first(const std::string& name, const NextCreator& next,
                      const VariableRequest& request) {
    Variable made = next(request);
    {
      const std::lock_guard lock(mutex_);
      made_[name].push_back(made);
    }
    rendezvous_.announce();
    return made;
  }

  Variable find(size_t replica, const std::string& name, const VariableRequest& request) {
    const size_t index = asked_[replica][name]++;
    std::optional<Variable> found;
    const auto ready = [&] {
      const std::lock_guard lock(mutex_);
      const auto list = made_.find(name);
      if (list == made_.end() || list->second.size() <= index) return false;
      found = list->second[index];
      return true;
    };
    if (!rendezvous_.await_first(ready)) {
      raise(Code::FailedPrecondition,
            "[Variable] replica {} makes variable number {} named '{}', which replica 0 does not "
            "make; all replicas must make the same variables",
            replica, index + 1, name);
    }
    check_same(replica, *found, request);
    return *found;
  }

  // A variable that nothing but this object refers to.
  const Variable* find_lost() const {
    for (const auto& [key, list] : made_) {
      for (const Variable& made : list) {
        if (VariableAccess::impl(made).use_count() == 1) return &made;
      }
    }
    return nullptr;
  }

  ReplicaRendezvous& rendezvous_;
  Mutex mutex_;
  std::map<std::string, std::vector<Variable>> made_;  // guarded by mutex_
  std::vector<std::map<std::string, size_t>> asked_;   // by replica; each uses its own
  int runs_that_lost_ = 0;
};

// The threads that run a strategy's replicas, one run at a time. Replica 0 runs in the caller's
// thread. The threads of the others wait between runs.
class ReplicaThreads {
 public:
  ReplicaThreads(Strategy& strategy, WriteOrder& order)
      : strategy_(strategy),
        order_(order),
        devices_(strategy.extended().worker_devices()),
        sharers_(strategy.extended().replicas_on_host()),
        waiting_(devices_.size()),
        rendezvous_(devices_.size()),
        variables_(rendezvous_, devices_.size()) {
    const StrategyExtended& extended = strategy.extended();
    const bool alone = extended.num_replicas_in_sync() == 1;
    for (size_t r = 0; r < devices_.size(); ++r) {
      contexts_.push_back(Access::make<ReplicaContext>(strategy, extended.replica_id(r), r,
                                                       alone ? nullptr : &rendezvous_));
    }
    for (size_t r = 1; r < devices_.size(); ++r) {
      threads_.emplace_back(fmt::format("replica_{}", r),
                            [this, r](const std::stop_token&) { wait_for_work(r); });
    }
  }

  ~ReplicaThreads() {
    stopping_ = true;
    orders_.fetch_add(1);
    orders_.notify_all();
  }

  using Body = ReplicaThreadPool::Body;
  // Returns when all replicas have ended; throws the first exception.
  void run(const Body& body) {
    body_ = &body;
    rendezvous_.begin(thread_dispatch().builder);
    variables_.begin();
    start_others();
    perform(0, nullptr);
    await_others();
    order_.end(&rendezvous_);  // the turns of replicas that failed
    rendezvous_.rethrow_failure();
    if (thread_dispatch().builder == nullptr) variables_.warn_of_lost_variables();
  }

 private:
  // The scopes around a replica's function, inside those around run().
  class ReplicaScopes {
   public:
    ReplicaScopes(ReplicaThreads& owner, size_t replica)
        : mode_({&owner.strategy_, &owner.contexts_[replica], owner.caller_device_}),
          device_(owner.devices_[replica]) {
      if (replica == 0) {
        share_.emplace(owner.sharers_);
      } else {
        name_.emplace(fmt::format("replica_{}", replica));
      }
      if (owner.random_) {
        const int id = owner.contexts_[replica].replica_id_in_sync_group();
        random_.emplace(random::default_generator(), owner.random_->of(id));
        torch_random_.emplace(owner.random_->torch_seed_of(id));
      }
      if (owner.devices_.size() == 1) return;
      not_recorded_.emplace();
      creator_.emplace([&owner, replica](const NextCreator& next, const VariableRequest& request) {
        // What a merge function makes, in the thread of replica 0, is not one of the replicas'.
        const bool merging = get_replica_context() != &owner.contexts_[replica];
        return merging ? next(request) : owner.variables_.make(replica, next, request);
      });
    }

   private:
    const ModeScope mode_;
    const DeviceScope device_;
    std::optional<KernelThreadShare> share_;  // the other replicas' threads always have theirs
    std::optional<NameScope> name_;
    std::optional<ScopedValue<random::Generator>> random_;
    std::optional<TorchRandomScope> torch_random_;
    // By tapes around run(), which see no other replica.
    std::optional<RecordingPause> not_recorded_;
    std::optional<VariableCreatorScope> creator_;
  };

  void wait_for_work(size_t replica) {
    const KernelThreadShare share(sharers_);
    ThreadContext context;
    for (uint32_t order = 0;;) {
      order = waiting_.while_equal(orders_, order);
      if (stopping_) return;
      perform(replica, &context);
      context.clear();
      if (running_.fetch_sub(1) == 1) running_.notify_all();
    }
  }

  // In a replica's own thread, `context` gets the caller's; it is null in the caller's thread.
  void perform(size_t replica, ThreadContext* context) {
    try {
      if (rendezvous_.enter(replica)) {
        std::optional<ThreadContext::Scope> around;
        if (context != nullptr) {
          *context = caller_context_;
          around.emplace(*context);
        }
        const ReplicaScopes inside(*this, replica);
        const StepSpan span(thread_dispatch().builder == nullptr);
        (*body_)(contexts_[replica]);
      }
    } catch (...) {
      rendezvous_.fail(std::current_exception());
    }
    rendezvous_.leave(replica);
  }

  void start_others() {
    caller_device_ = &value_device();
    if (strategy_.num_replicas_in_sync() > 1) random_.emplace();
    if (threads_.empty()) return;
    caller_context_.capture();
    running_ = static_cast<uint32_t>(threads_.size());
    orders_.fetch_add(1);
    orders_.notify_all();
  }

  void await_others() {
    for (uint32_t left = running_.load(); left != 0;) left = waiting_.while_equal(running_, left);
    caller_context_.clear();
    random_.reset();
  }

  Strategy& strategy_;
  WriteOrder& order_;
  const std::vector<std::string> devices_;
  const size_t sharers_;  // replicas on this host, those of other workers included
  const SpinWait waiting_;
  ReplicaRendezvous rendezvous_;
  SharedVariables variables_;
  std::deque<ReplicaContext> contexts_;  // kept, so that a late use of one is an error, not a crash

  const Body* body_ = nullptr;
  ThreadContext caller_context_;  // the functions of the other replicas run inside it
  const Device* caller_device_ = nullptr;
  std::optional<ReplicaRandom> random_;  // none for one replica, which draws as its caller
  std::atomic<uint32_t> running_{0};     // other replicas that have not ended
  std::atomic<uint32_t> orders_{0};      // changes when there is work
  std::atomic<bool> stopping_{false};
  std::vector<Thread> threads_;  // the last member: they use all others
};

ReplicaThreadPool::ReplicaThreadPool() = default;
ReplicaThreadPool::~ReplicaThreadPool() = default;

std::unique_ptr<ReplicaThreads> ReplicaThreadPool::take(Strategy& strategy) {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto taken = std::move(free_.back());
      free_.pop_back();
      return taken;
    }
  }
  return std::make_unique<ReplicaThreads>(strategy, *order_);
}

void ReplicaThreadPool::run_observed(Strategy& strategy, const Body& body, Observers& begun) {
  for (const auto& observer : observers()) {
    observer->before_run();
    begun.push_back(observer);
  }
  std::unique_ptr<ReplicaThreads> threads = take(strategy);
  const std::exception_ptr failure = capture_exception([&] { threads->run(body); });
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(threads));
  }
  rethrow_if_any(failure);
  // An observer is not called again when one after it throws.
  while (!begun.empty()) {
    const auto observer = std::move(begun.front());
    begun.erase(begun.begin());
    observer->after_run(/*failed=*/false);
  }
}

void ReplicaThreadPool::run(Strategy& strategy, const Body& body) {
  Observers begun;
  try {
    run_observed(strategy, body, begun);
  } catch (...) {
    for (const auto& observer : begun) observer->after_run(/*failed=*/true);
    throw;
  }
}

void ReplicaThreadPool::add(const std::shared_ptr<RunObserver>& observer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(observers_, [](const auto& known) { return known.expired(); });
  observers_.push_back(observer);
}

ReplicaThreadPool::Observers ReplicaThreadPool::observers() {
  const std::lock_guard lock(mutex_);
  Observers living;
  for (const std::weak_ptr<RunObserver>& observer : observers_) {
    if (auto held = observer.lock()) living.push_back(std::move(held));
  }
  return living;
}

void observe_runs(const Strategy& strategy, const std::shared_ptr<RunObserver>& observer) {
  Access::impl(strategy.extended())->threads.add(observer);
}

}  // namespace internal
}  // namespace cohort
