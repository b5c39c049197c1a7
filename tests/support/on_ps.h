#pragma once

#include <string>

#include "cohort/device.h"

namespace cohort::test {

// What `make` builds, on a parameter server.
template <typename Make>
auto on_ps(const Make& make, int task = 0) {
  const auto there = device("/job:ps/task:" + std::to_string(task));
  return make();
}

}  // namespace cohort::test
