#pragma once

#include <string>

#include "cohort/gradient.h"
#include "cohort/graph.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

// Gradients of many workers on their way to one update, as state of a graph. The functions add
// nodes to the graph being built; what they say happens when those run.
//
// An accumulator counts steps: one per take. A gradient that was computed for an earlier step is
// dropped without a word, so that a slow worker cannot spoil a later update.

namespace cohort {

enum class AccumulatorReduction { Mean, Sum };

struct AccumulatorOptions {
  DType dtype = kFloat32;          // a floating one (InvalidArgument)
  Shape shape = Shape::unknown();  // what is unknown is fixed by the first gradient
  AccumulatorReduction reduction = AccumulatorReduction::Mean;
  std::string name = "conditional_accumulator";
  std::string shared_name = {};  // graphs that give the same one share it; empty = name
};

namespace internal {

// What both kinds have in common.
class AccumulatorHandle {
 public:
  const std::string& name() const { return name_; }

  // The step that the accumulator is at: gradients of earlier ones are dropped. Returns something
  // to run.
  Tensor set_global_step(const Tensor& step, Site site = Site::here());
  // Takes, those that wait already too, ask for at most that many gradients from here on; 0 lifts
  // the limit. For workers that have left and will not send theirs.
  Tensor limit_required(const Tensor& most, Site site = Site::here());
  // Takes that wait now end with Cancelled; later ones wait again.
  Tensor cancel_pending_takes(Site site = Site::here());
  // How many gradients wait to be taken; int64.
  Tensor num_accumulated(Site site = Site::here());

 protected:
  AccumulatorHandle(const AccumulatorOptions& options, bool sparse, Site site);

  std::string name_;
  DType dtype_;
  Shape shape_;
  Tensor handle_;
};

}  // namespace internal

class ConditionalAccumulator : public internal::AccumulatorHandle {
 public:
  explicit ConditionalAccumulator(const AccumulatorOptions& options = {}, Site site = Site::here())
      : AccumulatorHandle(options, false, site) {}

  // Adds a gradient that was computed at `local_step`, unless the accumulator is at a later one.
  // Another dtype or shape than that of the gradients before is InvalidArgument. Returns something
  // to run.
  Tensor apply_gradient(const Tensor& gradient, const Tensor& local_step = int64_t{0},
                        Site site = Site::here());

  // Waits until there are `num_required` gradients, takes all that are there and goes to the next
  // step. Gives their mean: the sum divided by how many there are, which may be more than were
  // asked for; or the plain sum. Several takes are served in the order of their coming. Asking for
  // less than 1 is InvalidArgument.
  Tensor take_gradient(const Tensor& num_required, Site site = Site::here());
};

// The same for gradients that are rows of a tensor. Each row's mean is over the gradients that had
// it; rows come back in ascending order.
class SparseConditionalAccumulator : public internal::AccumulatorHandle {
 public:
  // The shape is that of the whole tensor.
  explicit SparseConditionalAccumulator(const AccumulatorOptions& options = {},
                                        Site site = Site::here())
      : AccumulatorHandle(options, true, site) {}

  Tensor apply_gradient(const IndexedSlices& gradient, const Tensor& local_step = int64_t{0},
                        Site site = Site::here());
  IndexedSlices take_gradient(const Tensor& num_required, Site site = Site::here());
};

}  // namespace cohort
