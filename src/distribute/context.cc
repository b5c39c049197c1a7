#include "distribute/context.h"

#include <algorithm>
#include <vector>

#include "base/raise.h"
#include "distribute/default_strategy.h"
#include "graph/trace_context.h"

namespace cohort {
namespace internal {
namespace {

std::vector<Mode>& modes() {
  thread_local std::vector<Mode> stack;
  return stack;
}

std::optional<size_t>& update_slot() {
  thread_local std::optional<size_t> index;
  return index;
}

// Tells functions that are traced here from those that are traced elsewhere: the strategy, the
// replica or copy that is meant, and which of the two.
void note_place() {
  const Mode* mode = current_mode();
  TraceContext& context = trace_context();
  const ReplicaContext* replica = mode != nullptr ? mode->replica : nullptr;
  context.in_replica = replica != nullptr && replica->meeting() != nullptr;
  context.place = 0;
  if (mode == nullptr && !update_slot()) return;
  const size_t component =
      replica != nullptr ? replica->local_replica() : update_slot().value_or(0);
  const uint64_t kind = replica != nullptr ? 1 : update_slot() ? 2 : 3;
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

}  // namespace

const Mode* current_mode() { return modes().empty() ? nullptr : &modes().back(); }
size_t mode_depth() { return modes().size(); }

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
  if (has_strategy()) raise_mixing(strategy, what);
  raise(Code::FailedPrecondition, "[{}] must be called inside the scope of {}, but {}", what,
        strategy.extended().name(), here());
}

void require_scope(const Strategy& strategy, std::string_view what) {
  if (&get_strategy() == &strategy) return;
  if (has_strategy()) raise_mixing(strategy, what);
  raise(Code::FailedPrecondition, "[{}] must be called inside the scope of {}, but {}", what,
        strategy.extended().name(), here());
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

UpdateScope::UpdateScope(std::optional<size_t> index) : outer_(update_slot()) {
  update_slot() = index;
  note_place();
}
UpdateScope::~UpdateScope() {
  update_slot() = outer_;
  note_place();
}
std::optional<size_t> update_index() { return update_slot(); }

std::optional<size_t> current_component() {
  const Mode* mode = current_mode();
  if (mode != nullptr && mode->replica != nullptr) return mode->replica->local_replica();
  return update_index();
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

}  // namespace cohort
