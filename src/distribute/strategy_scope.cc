#include <memory>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/device.h"
#include "distribute/context.h"
#include "distribute/default_strategy.h"
#include "distribute/variables.h"
#include "graph/scopes.h"
#include "tensor/devices.h"
#include "train/variable_creators.h"

namespace cohort {
namespace internal {
namespace {

// How many scopes of each kind this thread has open.
struct Depths {
  size_t modes = mode_depth();
  size_t devices = device_scope_depth();
  size_t creators = variable_creators().size();
  size_t names = build_scopes().name_prefixes.size();
};

void check_equal(size_t opened, size_t now, std::string_view kind, const Strategy& strategy) {
  if (opened == now) return;
  raise(Code::FailedPrecondition,
        "[StrategyScope] a {} that was opened {} the scope of {} is {}; close scopes in the "
        "reverse order of their opening, then close this one again",
        kind, now > opened ? "inside" : "before", strategy.extended().name(),
        now > opened ? "still open" : "closed already");
}

// What makes variables inside of the scope.
VariableCreator creator_of(Strategy& strategy) {
  return [&strategy](const NextCreator& next, const VariableRequest& request) {
    require_scope(strategy, "Variable");
    return create_in(strategy, next, request);
  };
}

}  // namespace

// What an open scope holds. The default strategy's scope changes nothing that a query sees.
struct ScopeState {
  explicit ScopeState(Strategy& strategy) : creator(creator_of(strategy)) {
    if (&strategy != &default_strategy()) mode.emplace(Mode{&strategy, nullptr});
    const std::string where = strategy.extended().default_device();
    if (!where.empty()) device.emplace(where);
    depths = Depths();
  }

  std::optional<ModeScope> mode;
  std::optional<DeviceScope> device;
  VariableCreatorScope creator;
  Depths depths;
};

namespace {

void check_balanced(const ScopeState& state, const Strategy& strategy) {
  const Depths now;
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

// The scope that set_strategy() opened. Made after what it uses, so that it ends before.
std::unique_ptr<StrategyScope>& installed_scope() {
  [[maybe_unused]] const Depths made_first;
  thread_local std::unique_ptr<StrategyScope> scope;
  return scope;
}

// Set while a thread has one, so that the end of a strategy need not look for it otherwise.
Strategy*& installed_strategy() {
  thread_local Strategy* strategy = nullptr;
  return strategy;
}

}  // namespace

void end_installed_scope(const Strategy& strategy) {
  if (installed_strategy() != &strategy) return;
  installed_strategy() = nullptr;
  installed_scope().reset();
}

}  // namespace internal

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
    internal::installed_strategy() = nullptr;
  }
  if (has_strategy()) {
    internal::raise(Code::FailedPrecondition,
                    "[set_strategy] must not be called inside the scope of {}",
                    get_strategy().extended().name());
  }
  if (strategy == nullptr) return;
  installed = std::make_unique<StrategyScope>(*strategy);
  internal::installed_strategy() = strategy;
}

}  // namespace cohort
