#pragma once

#include "cohort/tensor.h"

namespace cohort::internal {

// The ops that make a model ready and say whether it is; undefined ones are not there yet.
struct DefaultOps {
  Tensor init_op;
  Tensor local_init_op;
  Tensor ready_op;
  Tensor ready_for_local_init_op;

  // Adds those that are missing to the graph being built, for the variables made so far.
  void make_missing();
};

}  // namespace cohort::internal
