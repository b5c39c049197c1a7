#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/graph.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

namespace cohort {

struct FifoQueueOptions {
  int64_t capacity = -1;           // elements that it holds at most; -1 = no limit
  std::vector<DType> dtypes = {};  // of the tensors that make up one element
  std::vector<Shape> shapes = {};  // of the same; empty = any
  std::string name = "fifo_queue";
  std::string shared_name = {};  // graphs that give the same one share the queue; empty = name
};

struct QueueCloseOptions {
  bool cancel_pending_enqueues = false;  // those that wait end with Cancelled
};

// A queue of a graph: its elements, tuples of tensors, live with the session's devices and outlast
// a run. The functions add nodes to the graph being built; what they say happens when those run.
//
// Enqueuing waits while the queue is full, dequeuing while it is empty, each in the order of
// coming; the end of the run ends the waiting. After close() nothing can be put in (Cancelled);
// what is in can still be taken, then dequeuing is OutOfRange.
//
// The nodes of one run on one device run one after the other: a dequeue that waits for an enqueue
// of the same run must come after it (control_dependencies).
class FifoQueue {
 public:
  // Throws InvalidArgument for a capacity of 0 or less than -1, no dtypes, or another number of
  // shapes than of dtypes.
  explicit FifoQueue(const FifoQueueOptions& options, Site site = Site::here());

  const std::string& name() const { return name_; }

  // Puts one element in. Its tensors must have the queue's dtypes and fit its shapes
  // (InvalidArgument naming the queue). Returns something to run.
  Tensor enqueue(const std::vector<Tensor>& element, Site site = Site::here());
  // Puts in one element per row of the tensors, which have equally many.
  Tensor enqueue_many(const std::vector<Tensor>& rows, Site site = Site::here());

  // The tensors of the oldest element.
  std::vector<Tensor> dequeue(Site site = Site::here());
  // `count` elements as one, with a first dimension of that size. Needs fully known shapes
  // (InvalidArgument). When the queue is closed before it has that many, it is OutOfRange and all
  // stay in.
  std::vector<Tensor> dequeue_many(int64_t count, Site site = Site::here());

  // How many elements are in; int64.
  Tensor size(Site site = Site::here());

  // No more is put in from here on. Enqueues that wait already go on. Closing again is harmless.
  Tensor close(const QueueCloseOptions& options = {}, Site site = Site::here());

 private:
  std::string name_;
  std::vector<int64_t> components_;  // dtypes and shapes, packed
  Tensor handle_;
};

}  // namespace cohort
