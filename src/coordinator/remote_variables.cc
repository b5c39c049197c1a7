#include "coordinator/remote_variables.h"

#include <fmt/ranges.h>

#include <atomic>

#include "base/raise.h"
#include "cohort/coordinator.h"
#include "cohort/graph.h"
#include "coordinator/parameter_servers.h"
#include "ops/variable_ops.h"
#include "tensor/print.h"

namespace cohort {
namespace internal {
namespace {

// One plan on the server serves values of all sizes, because the rows of a gradient differ from
// step to step.
Spec spec_of(const Tensor& value) {
  const std::vector<int64_t> unknown(static_cast<size_t>(value.rank()), -1);
  return {value.dtype(), Shape(unknown)};
}

struct DescribeAttr {
  std::string operator()(const DType& dtype) const { return std::string(to_string(dtype)); }
  std::string operator()(const Shape& shape) const { return shape.to_string(); }
  std::string operator()(const std::vector<int64_t>& numbers) const {
    return fmt::format("{}", numbers);
  }
  std::string operator()(const std::vector<std::string>& texts) const {
    return fmt::format("{}", texts);
  }
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string> std::string operator()(
      const T& plain) const {
    return fmt::format("{}", plain);
  }
  template <typename T>
  std::string operator()(const T&) const {
    raise(Code::Internal, "[RemoteCell] an op on a variable has a tensor or a function inside");
  }
};

// Calls with the same key share a plan on the server.
std::string key_of(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  std::string key(op.name);
  for (const Tensor& input : inputs) {
    key += input.dtype() == kResource
               ? fmt::format(" {}", dynamic_cast<const RemoteCell&>(*resource_of(input)).name())
               : fmt::format(" {} {}", to_string(input.dtype()), input.rank());
  }
  for (const auto& [name, value] : attrs.entries()) {
    key += fmt::format(" {}={}", name, std::visit(DescribeAttr{}, value));
  }
  return key;
}

std::string next_name(const std::string& name) {
  static std::atomic<int64_t> made{0};
  return fmt::format("{}_of_worker_{}", name, made.fetch_add(1));
}

}  // namespace

std::vector<Tensor> RemoteCell::run(const OpDef& op, std::span<const Tensor> inputs,
                                    const Attrs& attrs) const {
  std::vector<Tensor> values;
  std::vector<std::string> variables;
  Specs specs;
  for (const Tensor& input : inputs) {
    if (input.dtype() == kResource) {
      variables.push_back(dynamic_cast<const RemoteCell&>(*resource_of(input)).name());
      continue;
    }
    values.push_back(input);
    specs.push_back(spec_of(input));
  }
  const auto make = [&] {
    return trace(std::string(op.name), specs, [&](std::span<const Tensor> symbols) {
      std::vector<Tensor> given(inputs.begin(), inputs.end());
      auto next = symbols.begin();
      for (Tensor& each : given) {
        if (each.dtype() != kResource) each = *next++;
      }
      return apply_many(op, given, attrs, {});
    });
  };
  const RecordingPause not_recorded;
  std::vector<Tensor> results;
  const Status status = capture_status([&] {
    results = servers_->run(
        device_,
        {.key = key_of(op, inputs, attrs), .make = make, .values = values, .uses = variables});
  });
  if (status.code == Code::Unavailable) {
    const std::string ps = device_.split().first;
    throw Error(Status{.code = status.code,
                       .message = fmt::format(
                           "[Variable] '{}' is on parameter server {}, which is lost", name(), ps),
                       .origin = ps,
                       .cause = std::make_shared<const Status>(status)});
  }
  throw_if_error(status);
  return results;
}

RemoteVariable::RemoteVariable(const VariableOptions& options, const Shape& shape, DType dtype,
                               Place place)
    : SingleVariable(options), place_(std::move(place)) {
  const ParameterServers::Lease lease = place_.servers->lease(place_.device, place_.unique_name);
  lease_ = lease;
  handle_ = {make_resource(std::make_shared<RemoteCell>(place_.unique_name, place_.device,
                                                        place_.servers, lease)),
             options.name, dtype, shape};
}

// The variable had a value when it was made. A checkpoint must not take it for one that never had a
// value.
bool RemoteVariable::is_initialized() const {
  const Graph::Scope untraced(nullptr);
  if (is_variable_initialized(handle_).to<bool>()) return true;
  raise(Code::Unavailable,
        "[Variable] '{}' is lost: {} was started again without it; restore a checkpoint", name(),
        place_.device.split().first);
}

std::shared_ptr<VariableImpl> RemoteVariable::deep_copy() const {
  Place place = place_;
  place.unique_name = place_.servers->unique_name(place_.unique_name + "/copy");
  const auto copy =
      std::make_shared<RemoteVariable>(options_, handle_.shape, handle_.dtype, std::move(place));
  copy->strategy = strategy;
  copy->write(Write::Assign, read());
  return copy;
}

std::string RemoteVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                     handle_.shape.to_string(), cohort::to_string(handle_.dtype),
                     format_like_python(read()));
}

// A variable of which each worker has its own copy. Only functions that workers run may use it;
// every other use throws FailedPrecondition.
class WorkerVariable : public SingleVariable {
 public:
  WorkerVariable(const std::string& name, const Tensor& initial_value)
      : SingleVariable({.name = name, .trainable = false}) {
    handle_ = {make_resource(std::make_shared<WorkerCell>(name, next_name(name), initial_value)),
               name, initial_value.dtype(), initial_value.shape()};
  }

  std::string device() const override { return "/job:worker"; }
  bool is_initialized() const override { return true; }
  std::shared_ptr<VariableImpl> deep_copy() const override {
    const auto& cell = dynamic_cast<const WorkerCell&>(*resource_of(handle_.handle));
    return std::make_shared<WorkerVariable>(name(), cell.initial_value());
  }

  std::string to_string() const override {
    return fmt::format("<PerWorkerVariable '{}:0' shape={} dtype={}>", name(),
                       handle_.shape.to_string(), cohort::to_string(handle_.dtype));
  }

 protected:
  // Throws unless a function is traced.
  const VariableHandle& usable_handle() const override {
    if (is_tracing()) return handle_;
    raise(Code::FailedPrecondition,
          "[PerWorkerVariable] '{}' is on the workers; use it in functions that they run, or read "
          "all copies with ClusterCoordinator::read_all()",
          name());
  }
};

}  // namespace internal

PerWorkerVariable::PerWorkerVariable(const Tensor& initial_value, const std::string& name)
    : variable_(internal::VariableAccess::make(
          std::make_shared<internal::WorkerVariable>(name, initial_value))) {}

}  // namespace cohort
