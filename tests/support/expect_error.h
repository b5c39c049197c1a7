#pragma once

#include <gtest/gtest.h>

#include "cohort/error.h"

namespace cohort {

// The Status of the Error that `body` throws; OK when it throws none.
template <typename Body>
Status error_of(Body&& body) {
  return capture_status(std::forward<Body>(body));
}

}  // namespace cohort

// Expects that `statement` throws an Error of that code whose message contains `fragment`.
#define EXPECT_ERROR(expected_code, fragment, statement)                            \
  do {                                                                              \
    const ::cohort::Status status = ::cohort::error_of([&] { (void)(statement); }); \
    EXPECT_EQ(status.code, expected_code) << status.to_string();                    \
    EXPECT_NE(status.message.find(fragment), std::string::npos) << status.message;  \
  } while (false)
