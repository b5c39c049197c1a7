#pragma once

namespace cohort {

// Where in the user's source an operation was called. Functions that make graph nodes take one as
// their last parameter, with here() as its default, so that an error can name that line.
struct Site {
  const char* file = "";
  int line = 0;

  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace cohort
