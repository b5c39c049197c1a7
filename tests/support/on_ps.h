#pragma once

#include <string>

#include "cohort/device.h"
#include "cohort/queue.h"

namespace cohort::test {

// What `make` builds, on a parameter server.
template <typename Make>
auto on_ps(const Make& make, int task = 0) {
  const auto there = device("/job:ps/task:" + std::to_string(task));
  return make();
}

// What nobody will ever put into a queue there.
inline Tensor never_on_ps() {
  return on_ps(
      [] { return FifoQueue({.components = {{kFloat32}}, .name = "never"}).dequeue()[0]; });
}

}  // namespace cohort::test
