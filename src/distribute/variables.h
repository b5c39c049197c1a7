#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/device.h"
#include "cohort/strategy.h"
#include "cohort/variable.h"

namespace cohort::internal {

// How strategies make variables. `next` makes an ordinary one; what a request may ask for is
// checked first (InvalidArgument).

// One copy on each device. The initial value is computed once, for the first copy, and the others
// begin as that. Copy i > 0 is named "<name>/replica_<i>".
Variable make_mirrored_variable(Strategy& strategy, const std::vector<std::string>& devices,
                                const NextCreator& next, const VariableRequest& request);
// One copy on `device`, which all replicas share; with one replica an ordinary variable.
Variable make_aggregating_variable(Strategy& strategy, const std::string& device,
                                   const NextCreator& next, const VariableRequest& request);
// An ordinary variable on that device that is the strategy's.
Variable make_plain_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                             const VariableRequest& request);

// What the strategy's create_variable() makes; it is the strategy's, whoever wrote that.
Variable create_in(Strategy& strategy, const NextCreator& next, const VariableRequest& request);

// The copies in this process, in the order of their devices; the variable itself when it is one.
std::vector<Variable> copies_of(const Variable& variable);
// The value of a copy, whatever the context. Nothing is told to tapes.
Tensor read_copy(const Variable& copy);
// The variable that `copy` is a copy of, or itself.
Variable container_of(const Variable& copy);
// Whether the strategy promises that all copies are equal.
bool is_mirrored(const Variable& variable);

// Calls `change(copy, k)` for each copy, on its device and in update context k.
DistributedValue change_copies(const Variable& variable, const StrategyExtended::Change& change);

// While it lives, this thread's operations belong to the device of a copy. Operations that run at
// once stay where they are when another task has the copy: only nodes of a graph go there.
class [[nodiscard]] CopyDeviceScope {
 public:
  explicit CopyDeviceScope(const std::string& device);

 private:
  std::optional<DeviceScope> scope_;
};

// Where variables that this thread makes are put instead of on all devices of the strategy; empty
// unless colocate_vars_with() is open.
class [[nodiscard]] CreationDevices {
 public:
  explicit CreationDevices(const std::vector<std::string>& devices);
  ~CreationDevices();
  CreationDevices(const CreationDevices&) = delete;
  CreationDevices& operator=(const CreationDevices&) = delete;
  // `all` unless one is open.
  static std::vector<std::string> current(const std::vector<std::string>& all);

 private:
  const std::vector<std::string>* outer_;
};

// While it lives, the variables that this thread makes begin with values that all workers know: no
// worker has to tell them.
class [[nodiscard]] KnownInitialValues {
 public:
  KnownInitialValues();
  ~KnownInitialValues();
  KnownInitialValues(const KnownInitialValues&) = delete;
  KnownInitialValues& operator=(const KnownInitialValues&) = delete;
  static bool is_open();

 private:
  bool outer_;
};

}  // namespace cohort::internal
