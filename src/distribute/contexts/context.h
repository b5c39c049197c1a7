#pragma once

#include <optional>
#include <string_view>

#include "cohort/strategy_extended.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The strategy of code that uses none: everything happens as it would without strategies.
Strategy& default_strategy();
ReplicaContext& default_replica_context();

// A replica of a strategy, or (with a null replica) the strategy's cross-replica context. A thread
// has a stack of them, which is empty in default replica mode.
struct Mode {
  Strategy* strategy;
  ReplicaContext* replica;
  const Device* around = nullptr;  // of a replica: where the caller of run() was
};
// The innermost mode; null in default replica mode.
const Mode* current_mode();

// While it lives, this thread is in the mode.
class [[nodiscard]] ModeScope {
 public:
  explicit ModeScope(Mode mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  size_t depth_;
};

// Each of these throws FailedPrecondition that says what was called, where that is allowed, and
// where this thread is.
void require_cross_replica_or_default(const Strategy& strategy, std::string_view what);
void require_scope(const Strategy& strategy, std::string_view what);
void require_replica(const ReplicaContext& context, std::string_view what);
// For calls that each replica makes with its own values. Outside of replicas, the values of this
// thread would stand for all replicas, and each of several workers would use other values. With one
// replica, such a call may be made everywhere.
void require_own_replica(const Strategy& strategy, std::string_view what);

// Opens the strategy's scope if no strategy is current. Throws FailedPrecondition if another one
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

// Ends the scope that set_strategy() opened on this thread for this strategy, if it did.
void end_installed_scope(const Strategy& strategy);

}  // namespace cohort::internal
