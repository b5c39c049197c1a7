#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/error.h"
#include "cohort/tensor.h"

namespace cohort::differential {

using Elements = std::vector<double>;
Elements elements_of(const Tensor& value);

// One thing that a program showed: one value that all workers have, or one for each replica.
struct Observation {
  std::string what;
  bool is_common = false;
  std::vector<Elements> values = {};
};

// What a program showed, and how it ended.
struct Outcome {
  std::vector<Observation> observations = {};
  Status end = {};
  // Other codes that it may have ended with: a traced step may meet its errors in another order.
  std::vector<Code> other_ends = {};

  void common(std::string what, const Tensor& value);
  void replicas(std::string what, std::vector<Elements> values);
};

// What the workers showed together. Throws std::runtime_error, saying how, where workers differ in
// what they must have in common.
Outcome join(const std::vector<Outcome>& workers);

// How an outcome differs from what it should be; nullopt when it does not. Sums may be rounded in
// another order.
std::optional<std::string> difference(const Outcome& found, const Outcome& expected);

}  // namespace cohort::differential
