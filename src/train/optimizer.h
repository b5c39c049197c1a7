#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/optim.h"
#include "ops/op.h"

namespace cohort::optim::internal {

struct SlotSpec {
  std::string name;
  double initial_value = 0;
};

// What one kind of optimizer is: the op that updates a variable (ops/optimizer_rule.h says what it
// takes), its constants, and its slots.
struct Rule {
  const cohort::internal::OpDef* op;
  cohort::internal::Attrs constants;
  std::vector<SlotSpec> slots;
};

// Throws InvalidArgument "[optimizer] name must be ..., got value" unless `holds`.
void require(bool holds, std::string_view optimizer, std::string_view what, double value);

// Throws InvalidArgument for limits that are negative.
Clipping checked(const Clipping& clipping);
// Throws InvalidArgument unless there is one gradient per variable and each fits its variable.
void check_all(const Gradients& gradients, const std::vector<Variable>& variables);

Gradients clipped(const Gradients& gradients, const Clipping& clipping);

}  // namespace cohort::optim::internal
