#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "cohort/error.h"

namespace cohort::test {

// How often a task tried to connect, as the error says; 0 if the error does not say.
inline int connection_tries(const Status& status) {
  const std::string text = status.to_string();
  const size_t at = text.find("; tried ");
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 8);
}

// Expects that no connection was tried for longer than `limit`, by the number of tries: the pauses
// between them are 10, 20, 40 ms and so on, up to 1 s. A slow machine makes fewer tries, never
// more. There are none where the end of an open connection says enough.
inline void expect_tried_at_most_for(std::chrono::milliseconds limit, const Status& status) {
  int most = 1;
  std::chrono::milliseconds begin{0}, pause{10};
  for (; begin + pause < limit; ++most) {
    begin += pause;
    pause = std::min(2 * pause, std::chrono::milliseconds(1000));
  }
  EXPECT_LE(connection_tries(status), most) << status;
}

// The same for a connection that was not open before.
inline void expect_tried_for(std::chrono::milliseconds limit, const Status& status) {
  EXPECT_GE(connection_tries(status), 1) << status;
  expect_tried_at_most_for(limit, status);
}

}  // namespace cohort::test
