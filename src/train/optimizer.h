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

Gradients clipped(const Gradients& gradients, const Clipping& clipping);

}  // namespace cohort::optim::internal
