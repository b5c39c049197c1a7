#pragma once

// The catalogue of errors: docs/errors.md has one row for each example, and each test of this
// program compares one section of the page with what the examples of its subject throw.
//
// To write the page anew after a text changed: COHORT_WRITE_ERRORS=1
// build/dev/tests/errors/errors_test

#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

struct ErrorExample {
  std::function<void()> provoke;  // throws the error, as a user's program would
  // What a user does about the error. Empty: the text says so.
  std::string remedy = {};
};

// One row of the page.
struct ErrorRow {
  std::string code, text, remedy;
};

// Fails unless the section `title` of docs/errors.md has a row for each example, in this order,
// with the code and the text that the example throws. Ports, directories and lines of source files
// differ from run to run, so that a fixed word replaces them.
void check_section(const std::string& title, const std::vector<ErrorExample>& examples);
void check_section(const std::string& title, const std::vector<ErrorRow>& rows);

}  // namespace cohort::test
