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

// What checkpoints need to know of an optimizer beyond what everybody may.
struct OptimizerAccess {
  struct Slot {
    Variable variable;  // whose slot it is
    std::string name;
    Variable value;
    double initial_value;
  };
  // Those that exist, in no particular order.
  static std::vector<Slot> slots(const Optimizer& optimizer);
  // Whether its variables will have a slot of that name.
  static bool has_slot(const Optimizer& optimizer, std::string_view name);
  // What a slot that does not exist yet begins with.
  static void await(Optimizer& optimizer, const Variable& variable, const std::string& slot,
                    Tensor value);
};

// What the slot for momentum is called. The formulas keep different things in it: a checkpoint of
// one must not be read as that of the other.
std::string velocity_name(Formula formula);

// Throws InvalidArgument "[optimizer] name must be ..., got value" unless `holds`.
void require(bool holds, std::string_view optimizer, std::string_view what, double value);

// Throws InvalidArgument for limits that are negative.
Clipping checked(const Clipping& clipping);
// Throws InvalidArgument unless there is one gradient per variable and each fits its variable.
void check_all(const Gradients& gradients, const std::vector<Variable>& variables);

Gradients clipped(const Gradients& gradients, const Clipping& clipping);

}  // namespace cohort::optim::internal
