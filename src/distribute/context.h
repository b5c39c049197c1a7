#pragma once

#include <optional>
#include <string_view>

#include "cohort/strategy.h"
#include "tensor/devices.h"

namespace cohort::internal {

// What this thread is inside of: a replica of a strategy, or (with a null replica) its
// cross-replica context. The empty stack is the default replica mode.
struct Mode {
  Strategy* strategy;
  ReplicaContext* replica;
  const Device* around = nullptr;  // of a replica: where the caller of run() was
};
// The innermost mode; null in default replica mode.
const Mode* current_mode();
size_t mode_depth();

// Pushes a mode for as long as it lives.
class [[nodiscard]] ModeScope {
 public:
  explicit ModeScope(Mode mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  size_t depth_;
};

// The guards. Each throws FailedPrecondition, saying what was called, where it is allowed, where
// this thread is, and how to get there.
void require_cross_replica_or_default(const Strategy& strategy, std::string_view what);
void require_scope(const Strategy& strategy, std::string_view what);
void require_replica(const ReplicaContext& context, std::string_view what);
// For what each replica does with values of its own: outside of replicas, the values of this thread
// would stand for all replicas, and on several workers each worker would use other values. A
// strategy with one replica may do it everywhere.
void require_own_replica(const Strategy& strategy, std::string_view what);

// Opens the strategy's scope when no strategy is current; throws FailedPrecondition when another
// is.
class [[nodiscard]] EnterOrAssert {
 public:
  EnterOrAssert(Strategy& strategy, std::string_view what);

 private:
  std::optional<StrategyScope> opened_;
};

// While it lives, this thread updates copy `index` of a variable: what it writes to variables of
// the strategy goes to that copy alone, and reads come from it. With nullopt it updates none.
class [[nodiscard]] UpdateScope {
 public:
  explicit UpdateScope(std::optional<size_t> index);
  ~UpdateScope();
  UpdateScope(const UpdateScope&) = delete;
  UpdateScope& operator=(const UpdateScope&) = delete;

 private:
  std::optional<size_t> outer_;
};
std::optional<size_t> update_index();

// Ends the scope that set_strategy() opened on this thread, if it is this strategy's.
void end_installed_scope(const Strategy& strategy);

}  // namespace cohort::internal
