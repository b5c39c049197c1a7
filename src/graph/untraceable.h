#pragma once

#include "cohort/error.h"

namespace cohort::internal {

// Thrown in code that is being traced and can only run as C++. Who traces a function runs it as it
// is instead; elsewhere it is an error like any other.
class Untraceable : public Error {
 public:
  using Error::Error;
};

}  // namespace cohort::internal
