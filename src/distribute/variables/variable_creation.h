#pragma once

#include <string>
#include <vector>

#include "base/thread_context.h"
#include "cohort/strategy_extended.h"
#include "cohort/variable.h"

namespace cohort::internal {

// How strategies make variables. `next` makes an ordinary one. Each function throws InvalidArgument
// for a request that it cannot serve.

// Makes one copy on each device. The initial value is computed once, for the first copy, and all
// copies begin with it. Copy i > 0 is named "<name>/replica_<i>".
Variable make_mirrored_variable(Strategy& strategy, const std::vector<std::string>& devices,
                                const NextCreator& next, const VariableRequest& request);
// Makes one copy on `device`, which all replicas share; with one replica, an ordinary variable.
Variable make_aggregating_variable(Strategy& strategy, const std::string& device,
                                   const NextCreator& next, const VariableRequest& request);
// Makes an ordinary variable on that device and gives it to the strategy.
Variable make_plain_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                             const VariableRequest& request);

// Makes a variable by the strategy's create_variable(), and gives it to the strategy.
Variable create_in(Strategy& strategy, const NextCreator& next, const VariableRequest& request);

// While it lives, variables that this thread makes go to `devices` instead of all devices of the
// strategy: for colocate_vars_with().
class [[nodiscard]] CreationDevices : ContextValue<const std::vector<std::string>*> {
 public:
  explicit CreationDevices(const std::vector<std::string>& devices)
      : ContextValue(innermost_, &devices) {}
  // `all` unless one is open.
  static std::vector<std::string> current(const std::vector<std::string>& all) {
    return innermost_.get() != nullptr ? *innermost_.get() : all;
  }

 private:
  static inline constinit ContextSlot<const std::vector<std::string>*> innermost_;
};

// While it lives, the variables that this thread makes begin with values that all workers know, so
// that workers need not exchange them.
class [[nodiscard]] KnownInitialValues : public ContextFlag<KnownInitialValues> {};

}  // namespace cohort::internal
