#pragma once

#include <chrono>
#include <thread>

namespace cohort::test {

// Whether `what` comes true within the limit.
template <typename What>
bool eventually(const What& what, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!what()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace cohort::test
