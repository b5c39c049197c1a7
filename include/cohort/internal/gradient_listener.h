#pragma once

#include <vector>

#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// Who wants to know the gradients of variables as soon as they are final, while the reverse walk
// goes on: all calls come from the thread that asked for the gradients.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void begin(const std::vector<Variable>& sources) = 0;
  // The gradient of source number `index`, once for each; those without one come last.
  virtual void ready(size_t index, const Gradient& gradient) = 0;
};

// The one for gradients of these variables on this thread; null when none is registered.
using GradientListenerFinder = GradientListener* (*)(const std::vector<Variable>& sources);
// Set by the module that has strategies when the first one is made that listens.
void set_gradient_listener_finder(GradientListenerFinder finder);
GradientListener* find_gradient_listener(const std::vector<Variable>& sources);

}  // namespace cohort::internal
