#pragma once

#include <vector>

#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// GradientListener receives the gradients of variables as soon as they are final, while the reverse
// walk continues. All calls come from the thread that computes the gradients.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void begin(const std::vector<Variable>& sources) = 0;
  // Receives the gradient of each source, by its index. Sources without a gradient come last.
  virtual void ready(size_t index, const Gradient& gradient) = 0;
};

// Returns the listener for gradients of these variables on this thread; null if none is registered.
using GradientListenerFinder = GradientListener* (*)(const std::vector<Variable>& sources);
// The module of the strategies calls this when it makes the first strategy that listens.
void set_gradient_listener_finder(GradientListenerFinder finder);
GradientListener* find_gradient_listener(const std::vector<Variable>& sources);

}  // namespace cohort::internal
