#include "distribute/contexts/context.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include "base/log.h"
#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/device.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "distribute/variables/variable_creation.h"
#include "graph/scopes.h"
#include "graph/tracing.h"
#include "ops/dispatch.h"
#include "variables/variable_creators.h"

namespace cohort {
namespace internal {
namespace {

constinit ContextSlot<std::vector<Mode>> mode_slot;
constinit ContextSlot<std::optional<size_t>> update_slot;

std::vector<Mode>& modes() { return mode_slot.get(); }

// Tells functions that are traced here from functions that are traced elsewhere, by the strategy
// and by the replica or copy.
void note_place() {
  const Mode* mode = current_mode();
  TraceContext& context = trace_context();
  const ReplicaContext* replica = mode != nullptr ? mode->replica : nullptr;
  context.in_replica = replica != nullptr && internal::Access::rendezvous(*replica) != nullptr;
  context.place = 0;
  const std::optional<size_t> updated = update_index();
  if (mode == nullptr && !updated) return;
  const size_t component = replica != nullptr ? replica->local_replica() : updated.value_or(0);
  const uint64_t kind = replica != nullptr ? 1 : updated ? 2 : 3;
  context.place = ((mode != nullptr ? mode->strategy->id() : 0) << 24 | component) << 2 | kind;
}

// Where this thread is, for messages.
std::string here() {
  const Mode* mode = current_mode();
  if (mode == nullptr) return "this thread is outside of every strategy";
  const std::string name = mode->strategy->extended().name();
  if (mode->replica == nullptr) return "this thread is in the cross-replica context of " + name;
  return fmt::format("this thread is inside replica {} of {}",
                     mode->replica->replica_id_in_sync_group(), name);
}

[[noreturn]] void raise_mixing(const Strategy& strategy, std::string_view what) {
  raise(Code::FailedPrecondition,
        "[{}] belongs to {}, but another strategy is current: {}; leave that strategy's scope "
        "first, strategies do not mix",
        what, strategy.extended().name(), here());
}

[[noreturn]] void raise_outside(const Strategy& strategy, std::string_view what) {
  if (has_strategy()) raise_mixing(strategy, what);
  raise(Code::FailedPrecondition, "[{}] must be called inside the scope of {}, but {}", what,
        strategy.extended().name(), here());
}

void check_equal(size_t opened, size_t now, std::string_view kind, const Strategy& strategy) {
  if (opened == now) return;
  raise(Code::FailedPrecondition,
        "[StrategyScope] a {} that was opened {} the scope of {} is {}; close scopes in the "
        "reverse order of their opening, then close this one again",
        kind, now > opened ? "inside" : "before", strategy.extended().name(),
        now > opened ? "still open" : "closed already");
}

// Makes variables inside the scope.
VariableCreator creator_of(Strategy& strategy) {
  return [&strategy](const NextCreator& next, const VariableRequest& request) {
    require_scope(strategy, "Variable");
    return create_in(strategy, next, request);
  };
}

}  // namespace

const Mode* current_mode() { return modes().empty() ? nullptr : &modes().back(); }

ModeScope::ModeScope(Mode mode) : depth_(modes().size() + 1) {
  modes().push_back(mode);
  note_place();
}
ModeScope::~ModeScope() {
  modes().resize(std::min(modes().size(), depth_ - 1));
  note_place();
}

void require_cross_replica_or_default(const Strategy& strategy, std::string_view what) {
  const Mode* mode = current_mode();
  if (mode == nullptr || (mode->strategy == &strategy && mode->replica == nullptr)) return;
  if (mode->strategy == &strategy) {
    raise(Code::FailedPrecondition,
          "[{}] needs the cross-replica context of {}, but {}; call it outside of run(), or from a "
          "function given to merge_call()",
          what, strategy.extended().name(), here());
  }
  raise_outside(strategy, what);
}

void require_scope(const Strategy& strategy, std::string_view what) {
  if (&get_strategy() != &strategy) raise_outside(strategy, what);
}

void require_replica(const ReplicaContext& context, std::string_view what) {
  const ReplicaContext* current = get_replica_context();
  if (current == &context) return;
  const std::string wanted = fmt::format("replica {} of {}", context.replica_id_in_sync_group(),
                                         context.strategy().extended().name());
  if (current == nullptr) {
    raise(Code::FailedPrecondition,
          "[{}] of {} must be called inside the function given to run(), but {}", what, wanted,
          here());
  }
  if (&current->strategy() == &context.strategy()) {
    raise(Code::FailedPrecondition,
          "[{}] of {} was called by another replica: {}; ask get_replica_context() in each", what,
          wanted, here());
  }
  raise(Code::FailedPrecondition,
        "[{}] of {} was called outside of the run() that it belongs to: {}; a replica context is "
        "valid until run() returns",
        what, wanted, here());
}

void require_own_replica(const Strategy& strategy, std::string_view what) {
  if (strategy.num_replicas_in_sync() == 1) return;
  const Mode* mode = current_mode();
  if (mode != nullptr && mode->strategy == &strategy && mode->replica != nullptr) return;
  raise(Code::FailedPrecondition,
        "[{}] must be called inside the function given to run() of {}, which has {} replicas, but "
        "{}; write strategy.run([&] {{ … }}), where the gradients of all replicas are added up",
        what, strategy.extended().name(), strategy.num_replicas_in_sync(), here());
}

EnterOrAssert::EnterOrAssert(Strategy& strategy, std::string_view what) {
  if (!has_strategy()) {
    if (&get_strategy() != &strategy) opened_.emplace(strategy);
  } else if (&get_strategy() != &strategy) {
    raise_mixing(strategy, what);
  }
}

UpdateScope::UpdateScope(std::optional<size_t> index)
    : outer_(std::exchange(update_slot.get(), index)) {
  note_place();
}
UpdateScope::~UpdateScope() {
  update_slot.get() = outer_;
  note_place();
}
std::optional<size_t> update_index() { return update_slot.get(); }

std::optional<size_t> current_component() {
  const Mode* mode = current_mode();
  if (mode != nullptr && mode->replica != nullptr) return mode->replica->local_replica();
  return update_index();
}

// How many scopes of each kind this thread has open.
struct ScopeDepths {
  size_t modes = mode_slot.get().size();
  size_t devices = device_scope_depth();
  size_t creators = variable_creators().size();
  size_t names = build_scopes().name_prefixes.size();
};

// What an open scope holds. The default strategy's scope changes nothing that a query sees.
struct ScopeState {
  explicit ScopeState(Strategy& strategy) : creator(creator_of(strategy)) {
    if (&strategy != &default_strategy()) mode.emplace(Mode{&strategy, nullptr});
    const std::string where = strategy.extended().default_device();
    if (!where.empty()) device.emplace(where);
    depths = ScopeDepths();
  }

  std::optional<ModeScope> mode;
  std::optional<DeviceScope> device;
  VariableCreatorScope creator;
  ScopeDepths depths;
};

namespace {

void check_balanced(const ScopeState& state, const Strategy& strategy) {
  const ScopeDepths now;
  if (now.modes != state.depths.modes) {
    raise(Code::FailedPrecondition,
          "[StrategyScope] the scope of {} was opened elsewhere: close it on the thread, and at "
          "the depth, where it was opened",
          strategy.extended().name());
  }
  check_equal(state.depths.devices, now.devices, "device scope", strategy);
  check_equal(state.depths.creators, now.creators, "variable creator scope", strategy);
  check_equal(state.depths.names, now.names, "name scope", strategy);
}

// The scope that set_strategy() opened, which lasts until the thread ends at most. ScopeDepths
// makes the thread's context first, so that the context is there until the scope has ended.
std::unique_ptr<StrategyScope>& installed_scope() {
  [[maybe_unused]] const ScopeDepths made_first;
  thread_local std::unique_ptr<StrategyScope> scope;
  return scope;
}

// Whose scope that is. A strategy may end after the scope of its thread has, and asks here first.
thread_local Strategy* installed_strategy = nullptr;

}  // namespace

void end_installed_scope(const Strategy& strategy) {
  if (installed_strategy != &strategy) return;
  installed_strategy = nullptr;
  installed_scope().reset();
}

}  // namespace internal

Strategy& get_strategy() {
  const internal::Mode* mode = internal::current_mode();
  return mode != nullptr ? *mode->strategy : internal::default_strategy();
}

bool has_strategy() {
  const internal::Mode* mode = internal::current_mode();
  return mode != nullptr && mode->strategy != &internal::default_strategy();
}

bool in_cross_replica_context() { return get_replica_context() == nullptr; }

ReplicaContext* get_replica_context() {
  const internal::Mode* mode = internal::current_mode();
  return mode != nullptr ? mode->replica : &internal::default_replica_context();
}

StrategyScope::StrategyScope(Strategy& strategy) : strategy_(strategy) { enter(); }

StrategyScope::~StrategyScope() {
  const Status status = capture_status([&] {
    if (state_ != nullptr) internal::check_balanced(*state_, strategy_);
  });
  if (!status.ok()) internal::log_error("{}", status.message);
}

void StrategyScope::enter() {
  if (has_strategy()) internal::require_cross_replica_or_default(strategy_, "scope");
  if (has_strategy() || state_ != nullptr) {
    ++nested_;
  } else {
    state_ = std::make_unique<internal::ScopeState>(strategy_);
  }
}

void StrategyScope::close() {
  if (nested_ > 0) {
    --nested_;
  } else if (state_ != nullptr) {
    internal::check_balanced(*state_, strategy_);
    state_.reset();
  } else {
    internal::raise(Code::FailedPrecondition, "[StrategyScope] the scope of {} is not open",
                    strategy_.extended().name());
  }
}

void set_strategy(Strategy* strategy) {
  std::unique_ptr<StrategyScope>& installed = internal::installed_scope();
  if (installed != nullptr) {
    installed->close();
    installed.reset();
    internal::installed_strategy = nullptr;
  }
  if (has_strategy()) {
    internal::raise(
        Code::FailedPrecondition,
        "[set_strategy] must not be called inside the scope of {}; leave the scope first",
        get_strategy().extended().name());
  }
  if (strategy == nullptr) return;
  installed = std::make_unique<StrategyScope>(*strategy);
  internal::installed_strategy = strategy;
}

namespace {

// What one replica adds to a graph of its own runs later, without the code that would merge.
void check_can_merge(const internal::ReplicaRendezvous& rendezvous) {
  const internal::GraphBuilder* graph = internal::thread_dispatch().builder;
  if (graph == nullptr || graph == rendezvous.shared_graph()) return;
  throw internal::Untraceable(Code::Unimplemented,
                              "[merge_call] cannot be part of a graph that a replica builds by "
                              "itself; build the graph around run() instead, or use all_reduce()");
}

}  // namespace

ReplicaContext::ReplicaContext(Strategy& strategy, int replica_id_in_sync_group,
                               size_t local_replica, internal::ReplicaRendezvous* rendezvous)
    : strategy_(strategy),
      id_(replica_id_in_sync_group),
      local_(local_replica),
      rendezvous_(rendezvous) {}

int ReplicaContext::num_replicas_in_sync() const { return strategy_.num_replicas_in_sync(); }

std::vector<std::string> ReplicaContext::devices() const {
  internal::require_replica(*this, "ReplicaContext.devices");
  return {internal::current_device().full_name};
}

namespace internal {

void merge_replicas(ReplicaContext& context, size_t kind, void* own,
                    const std::function<void(std::span<void* const>)>& body) {
  require_replica(context, "merge_call");
  const Mode* mode = current_mode();
  const Device* around = mode != nullptr ? mode->around : nullptr;
  const auto once = [&](std::span<void* const> owns) {
    const ModeScope cross({&context.strategy(), nullptr});
    std::optional<DeviceScope> outside;
    if (around != nullptr) outside.emplace(around->full_name);
    body(owns);
  };
  ReplicaRendezvous* const rendezvous = Access::rendezvous(context);
  if (rendezvous == nullptr) {
    once(std::span<void* const>(&own, 1));
  } else {
    check_can_merge(*rendezvous);
    const RecordingPause not_recorded;  // the other replicas' tapes record nothing either
    rendezvous->meet(context.local_replica(), {"merge_call", kind, own}, once, nullptr);
  }
}

}  // namespace internal

std::string ReplicaContext::to_string() const {
  return fmt::format(
      "ReplicaContext(strategy={}, replica_id_in_sync_group={}, num_replicas_in_sync={})",
      strategy_.extended().name(), id_, num_replicas_in_sync());
}

std::ostream& operator<<(std::ostream& out, const ReplicaContext& context) {
  return out << context.to_string();
}

}  // namespace cohort
