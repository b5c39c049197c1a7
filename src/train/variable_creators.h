#pragma once

#include <utility>
#include <vector>

#include "cohort/device.h"
#include "cohort/variable.h"

namespace cohort::internal {

// What initializes a variable that is made from a value, so that others can see the value without
// calling it.
struct ConstantInitializer {
  Tensor value;
  Tensor operator()() const { return value; }
};

// What initializes a variable that the first call of a layer makes. The replicas of one run that
// call the layer ask for the same variable, and which of them find it made is a matter of chance,
// so that replicas cannot tell it from others of its name by counting: the layer tells.
struct FirstCallInitializer {
  Initializer make;
  const void* layer;
  Tensor operator()() const { return make(); }
};

// This thread's open creators, outermost first.
std::vector<VariableCreator>& variable_creators();

// While it lives, the values of ordinary variables that this thread makes are made in this process
// when the device scopes ask for another task: somebody else takes them there.
class [[nodiscard]] ValuesAreMadeHere {
 public:
  ValuesAreMadeHere();
  ~ValuesAreMadeHere();
  ValuesAreMadeHere(const ValuesAreMadeHere&) = delete;
  ValuesAreMadeHere& operator=(const ValuesAreMadeHere&) = delete;
  // This thread's; null when there is none.
  static ValuesAreMadeHere* innermost();

  // What the scopes asked for when the last variable was made, those of creators included.
  const DeviceName& asked() const { return asked_; }
  void note(DeviceName asked) { asked_ = std::move(asked); }

 private:
  ValuesAreMadeHere* const outer_;
  DeviceName asked_;
};

// Makes the variable without asking them: a node of the graph being built, or, outside of graphs
// and while a function is traced, a variable that exists at once.
Variable make_ordinary_variable(const VariableRequest& request);

}  // namespace cohort::internal
