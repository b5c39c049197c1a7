#pragma once

#include <utility>
#include <vector>

#include "base/thread_context.h"
#include "cohort/device.h"
#include "cohort/variable.h"

namespace cohort::internal {

// Initializes a variable that is made from a value. Code that only wants the value finds it here
// and need not call the initializer.
struct ConstantInitializer {
  Tensor value;
  Tensor operator()() const { return value; }
};

// Initializes a variable that the first call of a layer makes. The replicas of one run ask for the
// same variable, and chance decides which replicas find it made. So they cannot tell it from other
// variables of its name by counting; they compare the layer.
struct FirstCallInitializer {
  Initializer make;
  const void* layer;
  Tensor operator()() const { return make(); }
};

// This thread's open creators, outermost first.
std::vector<VariableCreator>& variable_creators();

// While it lives, this thread makes the values of ordinary variables in this process, also where
// the device scopes ask for another task. The strategy sends the values there.
class [[nodiscard]] ValuesAreMadeHere : ContextValue<ValuesAreMadeHere*> {
 public:
  ValuesAreMadeHere();
  // The innermost one of this thread; null when there is none.
  static ValuesAreMadeHere* innermost();

  // The device that the scopes, those of creators included, asked for when the last variable was
  // made.
  const DeviceName& asked() const { return asked_; }
  void note(DeviceName asked) { asked_ = std::move(asked); }

 private:
  DeviceName asked_;
};

// Makes the variable without asking the creators: a node of the graph being built or, outside
// graphs and while a function is traced, a variable that exists at once.
Variable make_ordinary_variable(const VariableRequest& request);

}  // namespace cohort::internal
