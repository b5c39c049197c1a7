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

// The rule of an optimizer: the op that updates a variable (ops/optimizer_ops.cc lists its inputs),
// the constants of the op, and the slots.
struct Rule {
  const cohort::internal::OpDef* op;
  cohort::internal::Attrs constants;
  std::vector<SlotSpec> slots;
};

// The state of an optimizer that only checkpoints see.
struct OptimizerAccess {
  struct Slot {
    Variable variable;  // that the slot belongs to
    std::string name;
    Variable value;
    double initial_value;
  };
  // The slots that exist, in no particular order.
  static std::vector<Slot> slots(const Optimizer& optimizer);
  // Whether the rule has a slot of that name.
  static bool has_slot(const Optimizer& optimizer, std::string_view name);
  // Sets what a slot that does not exist yet begins with.
  static void await(Optimizer& optimizer, const Variable& variable, const std::string& slot,
                    Tensor value);
};

// Throws InvalidArgument "[optimizer] name must be ..., got value" unless `holds`.
void require(bool holds, std::string_view optimizer, std::string_view what, double value);

// Throws InvalidArgument for negative limits.
Clipping checked(const Clipping& clipping);
// Throws InvalidArgument unless there is one gradient per variable and each fits its variable.
void check_all(const Gradients& gradients, const std::vector<Variable>& variables);

Gradients clipped(const Gradients& gradients, const Clipping& clipping);

}  // namespace cohort::optim::internal
