#pragma once

#include "cohort/graph.h"

namespace cohort {

// FifoQueueOptions describes the elements of a FifoQueue.
struct FifoQueueOptions {
  // The largest number of elements. Empty: no limit; a negative number, as in TensorFlow, is the
  // same as empty.
  std::optional<int64_t> capacity = std::nullopt;
  std::vector<TensorSpec> components = {};  // the tensors of one element
  std::string name = "fifo_queue";
  std::string shared_name = {};  // graphs with the same one share the queue; empty: the name
};

// QueueCloseOptions sets what FifoQueue::close() does with enqueues that wait.
struct QueueCloseOptions {
  bool cancel_pending_enqueues = false;  // waiting enqueues throw Cancelled
};

// FifoQueue is a queue of a graph. Its elements are tuples of tensors. They belong to the devices
// of the session and outlast a run.
//
//   auto building = graph.as_default();
//   FifoQueue queue({.capacity = 4, .components = {{kFloat32, {2}}}});
//   Tensor put = queue.enqueue({Tensor({1.f, 2.f})});
//   Tensor first = queue.dequeue()[0];
//   session.run(put);
//
// The member functions add nodes to the graph being built; their comments describe what happens
// when a run executes the nodes. An enqueue waits while the queue is full, a dequeue while it is
// empty, both in the order of arrival; the end of the run ends the wait. After close(), an enqueue
// throws Cancelled. A dequeue still returns the remaining elements, then throws OutOfRange.
//
// The nodes that one run executes on one device run one after the other. A dequeue that waits for
// an enqueue of the same run must therefore come after it (see control_dependencies()).
class FifoQueue {
 public:
  // Throws InvalidArgument if the capacity is 0, or if `components` is empty.
  explicit FifoQueue(const FifoQueueOptions& options, Site site = Site::here());

  const std::string& name() const { return name_; }

  // Adds one element. Returns an op to run. Throws InvalidArgument, with the name of the queue, if
  // a dtype or shape differs.
  Tensor enqueue(const std::vector<Tensor>& element, Site site = Site::here());
  // Adds one element for each row of the tensors, which must have equally many rows.
  Tensor enqueue_many(const std::vector<Tensor>& rows, Site site = Site::here());

  // Removes the oldest element and returns its tensors.
  std::vector<Tensor> dequeue(Site site = Site::here());
  // Removes `count` elements and returns them as one, with a first dimension of that size. Throws
  // InvalidArgument unless all shapes are fully known. Throws OutOfRange, and removes nothing, if
  // the queue is closed before it has so many.
  std::vector<Tensor> dequeue_many(int64_t count, Site site = Site::here());

  // Returns the number of elements; int64.
  Tensor size(Site site = Site::here());

  // Refuses new enqueues. Enqueues that already wait go on. May be run again.
  Tensor close(const QueueCloseOptions& options = {}, Site site = Site::here());

 private:
  std::string name_;
  std::vector<int64_t> components_;  // packed
  Tensor handle_;
};

// Accumulators are state of a graph: they collect the gradients of several workers for one update.
// Functions add nodes to the graph being built; the comments describe what happens in a run.
//
// An accumulator counts steps, one for each take. It silently drops a gradient that was computed at
// an earlier step, so that a slow worker cannot spoil a later update.

// AccumulatorReduction sets whether a take returns the mean or the sum of the gradients.
enum class AccumulatorReduction { Mean, Sum };

// AccumulatorOptions describes the gradients of an accumulator.
struct AccumulatorOptions {
  DType dtype = kFloat32;          // must be floating (InvalidArgument)
  Shape shape = Shape::unknown();  // the first gradient sets unknown sizes
  AccumulatorReduction reduction = AccumulatorReduction::Mean;
  std::string name = "conditional_accumulator";
  std::string shared_name = {};  // graphs with the same one share it; empty: the name
};

namespace internal {

// AccumulatorHandle has the functions of both kinds of accumulators.
class AccumulatorHandle {
 public:
  const std::string& name() const { return name_; }

  // Sets the step of the accumulator. Gradients of earlier steps are dropped. Returns an op to run.
  Tensor set_global_step(const Tensor& step, Site site = Site::here());
  // Limits how many gradients each take needs, even a waiting take: for use after workers have
  // left. 0 removes the limit.
  Tensor limit_required(const Tensor& most, Site site = Site::here());
  // Ends the takes that wait now with Cancelled. Later takes wait again.
  Tensor cancel_pending_takes(Site site = Site::here());
  // Returns the number of gradients that wait to be taken; int64.
  Tensor num_accumulated(Site site = Site::here());

 protected:
  AccumulatorHandle(const AccumulatorOptions& options, bool sparse, Site site);

  std::string name_;
  DType dtype_;
  Shape shape_;
  Tensor handle_;
};

}  // namespace internal

// ConditionalAccumulator collects dense gradients.
//
//   auto building = graph.as_default();
//   ConditionalAccumulator gradients({.shape = {2}});
//   Tensor add = gradients.apply_gradient(Tensor({1.f, 2.f}), int64_t{0});
//   Tensor mean = gradients.take_gradient(int64_t{1});
//   session.run(add);
class ConditionalAccumulator : public internal::AccumulatorHandle {
 public:
  explicit ConditionalAccumulator(const AccumulatorOptions& options = {}, Site site = Site::here())
      : AccumulatorHandle(options, false, site) {}

  // Adds a gradient that was computed at `local_step`, unless the accumulator is at a later step.
  // Throws InvalidArgument if its dtype is not that of the accumulator, or if its shape differs
  // from that of earlier gradients. Returns an op to run.
  Tensor apply_gradient(const Tensor& gradient, const Tensor& local_step = int64_t{0},
                        Site site = Site::here());

  // Waits for `num_required` gradients, takes all that have arrived, perhaps more, and goes to the
  // next step. Returns the mean or the sum of all that it took. Several takes are served in the
  // order of arrival. Throws InvalidArgument if num_required is below 1.
  Tensor take_gradient(const Tensor& num_required, Site site = Site::here());
};

// SparseConditionalAccumulator collects gradients that are rows of a tensor. The mean of a row is
// over the gradients that have this row. The rows of the result are in ascending order.
class SparseConditionalAccumulator : public internal::AccumulatorHandle {
 public:
  // The shape in the options is that of the whole tensor.
  explicit SparseConditionalAccumulator(const AccumulatorOptions& options = {},
                                        Site site = Site::here())
      : AccumulatorHandle(options, true, site) {}

  Tensor apply_gradient(const IndexedSlices& gradient, const Tensor& local_step = int64_t{0},
                        Site site = Site::here());
  IndexedSlices take_gradient(const Tensor& num_required, Site site = Site::here());
};

}  // namespace cohort
