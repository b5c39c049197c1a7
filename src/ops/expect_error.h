#pragma once

#include <gtest/gtest.h>

#include "cohort/error.h"

namespace cohort::internal {

// Fails the test unless `call` throws an Error with that code and `fragment` in its message.
template <typename Call>
void expect_error(Call&& call, std::string_view fragment, Code code = Code::InvalidArgument) {
  const Status status = capture_status(std::forward<Call>(call));
  EXPECT_EQ(status.code, code) << status;
  EXPECT_NE(status.message.find(fragment), std::string::npos)
      << "expected \"" << fragment << "\" in: " << status;
}

}  // namespace cohort::internal
