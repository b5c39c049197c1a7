#pragma once

#include <gtest/gtest.h>

#include "cohort/error.h"

namespace cohort {

// The Status of the Error that `body` throws; OK when it throws none.
template <typename Body>
Status error_of(Body&& body) {
  return capture_status(std::forward<Body>(body));
}

namespace internal {

// Fails the test unless `call` throws an Error with that code and `fragment` in its message.
template <typename Call>
void expect_error(Call&& call, std::string_view fragment, Code code = Code::InvalidArgument) {
  const Status status = error_of(std::forward<Call>(call));
  EXPECT_EQ(status.code, code) << status;
  EXPECT_NE(status.message.find(fragment), std::string::npos)
      << "expected \"" << fragment << "\" in: " << status;
}

}  // namespace internal
}  // namespace cohort

// Expects that `statement` throws an Error of that code whose message contains `fragment`.
#define EXPECT_ERROR(expected_code, fragment, statement)                            \
  do {                                                                              \
    const ::cohort::Status status = ::cohort::error_of([&] { (void)(statement); }); \
    EXPECT_EQ(status.code, expected_code) << status.to_string();                    \
    EXPECT_NE(status.message.find(fragment), std::string::npos) << status.message;  \
  } while (false)
