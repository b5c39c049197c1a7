#pragma once

#include <memory>
#include <string>
#include <variant>

#include "cohort/data.h"
#include "cohort/distributed_dataset.h"
#include "cohort/variable.h"

// What each worker has one of.

namespace cohort {

namespace internal {
class ClusterCoordinatorState;
class PerWorkerData;  // the datasets, described
// A dataset as a function for one worker gives it.
using PerWorkerSpec = std::variant<data::Dataset, DistributedDataset>;
}  // namespace internal

// An iterator on each worker: an argument of ClusterCoordinator::schedule, where it becomes the
// Iterator of the worker that runs the function.
class PerWorkerIterator {
 public:
  explicit PerWorkerIterator(data::Iterator stand_in) : stand_in_(std::move(stand_in)) {}
  // What functions are traced with.
  const data::Iterator& stand_in() const { return stand_in_; }
  // Throws Unimplemented: only workers take elements.
  [[noreturn]] data::Element next() const;

 private:
  data::Iterator stand_in_;
};

// A variable of which each worker has its own copy, which nothing keeps in step: it is not trained
// and not saved. Functions that workers run use it as the Variable that it is; elsewhere every use
// throws FailedPrecondition. A worker that is started again begins with the initial value again.
class PerWorkerVariable {
 public:
  explicit PerWorkerVariable(const Tensor& initial_value,
                             const std::string& name = "PerWorkerVariable");
  operator Variable() const { return variable_; }
  const Variable& variable() const { return variable_; }

 private:
  Variable variable_;
};

// A dataset for each worker. Cheap to copy.
class PerWorkerDataset {
 public:
  explicit PerWorkerDataset(std::shared_ptr<const internal::PerWorkerData> data)
      : data_(std::move(data)) {}
  // New iterators, from the beginning. Each worker makes its own when it first needs it. Throws
  // FailedPrecondition in code that is traced.
  PerWorkerIterator iterator() const;
  // Of one worker's elements. Where only an element tells, functions of the first worker's dataset
  // make one here, once. Throws FailedPrecondition when there is none, and for a generator that
  // does not declare its elements, from which such an element would be lost.
  data::ElementSpec element_spec() const;

 private:
  std::shared_ptr<const internal::PerWorkerData> data_;
};

}  // namespace cohort
