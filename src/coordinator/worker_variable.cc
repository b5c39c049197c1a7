#include "coordinator/worker_variable.h"

#include <atomic>

#include "base/raise.h"
#include "cohort/per_worker.h"
#include "coordinator/remote_cell.h"
#include "ops/dispatch.h"

namespace cohort {
namespace internal {
namespace {

std::string next_name(const std::string& name) {
  static std::atomic<int64_t> made{0};
  return fmt::format("{}_of_worker_{}", name, made.fetch_add(1));
}

const WorkerCell& cell_of_worker(const VariableHandle& handle) {
  return dynamic_cast<const WorkerCell&>(*resource_of(handle.handle));
}

}  // namespace

WorkerVariable::WorkerVariable(const std::string& name, const Tensor& initial_value)
    : SingleVariable({.name = name, .trainable = false}) {
  handle_ = {make_resource(std::make_shared<WorkerCell>(name, next_name(name), initial_value)),
             name, initial_value.dtype(), initial_value.shape()};
}

void WorkerVariable::check_place() const {
  const GraphBuilder* builder = thread_dispatch().builder;
  if (builder != nullptr && !builder->makes_variables()) return;
  raise(Code::FailedPrecondition,
        "[PerWorkerVariable] '{}' is on the workers; use it in functions that they run, or read "
        "all of them with ClusterCoordinator::read_all()",
        name());
}

Tensor WorkerVariable::read() const {
  check_place();
  return SingleVariable::read();
}

Tensor WorkerVariable::assign(const Tensor& value) {
  check_place();
  return SingleVariable::assign(value);
}

Tensor WorkerVariable::assign_add(const Tensor& delta) {
  check_place();
  return SingleVariable::assign_add(delta);
}

Tensor WorkerVariable::assign_sub(const Tensor& delta) {
  check_place();
  return SingleVariable::assign_sub(delta);
}

Tensor WorkerVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  check_place();
  return SingleVariable::scatter(op, slices);
}

std::shared_ptr<VariableImpl> WorkerVariable::deep_copy() const {
  return std::make_shared<WorkerVariable>(name(), cell_of_worker(handle_).initial_value());
}

std::string WorkerVariable::to_string() const {
  return fmt::format("<PerWorkerVariable '{}:0' shape={} dtype={}>", name(),
                     handle_.shape.to_string(), cohort::to_string(handle_.dtype));
}

}  // namespace internal

PerWorkerVariable::PerWorkerVariable(const Tensor& initial_value, const std::string& name)
    : variable_(internal::VariableAccess::make(
          std::make_shared<internal::WorkerVariable>(name, initial_value))) {}

}  // namespace cohort
