#include "cohort/cross_device_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <map>
#include <ostream>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "cohort/values.h"
#include "collectives/nccl_library.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/reduce/tensor_reduction.h"
#include "tensor/devices.h"
#include "tensor/memory.h"

namespace cohort {
namespace {

using internal::raise;
using Kind = DistributedValue::Kind;

// In the order of ReduceOp.
constexpr std::array<std::string_view, 5> kNames{"Sum", "Mean", "Min", "Max", "Product"};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The full name; its missing parts are those of the current device scope.
std::string resolve(std::string_view device) {
  // To parse and print a full name took a third of the time of reducing one number.
  if (internal::has_device(device)) return std::string(device);
  return canonical_device(device, internal::value_device().full_name);
}

}  // namespace

// ---- What a reduction is asked for: the operation, how to communicate, and where results go

std::string to_string(ReduceOp op) {
  const auto number = static_cast<size_t>(op);
  if (number < kNames.size()) return std::string(kNames[number]);
  raise(Code::InvalidArgument, "[ReduceOp] there is no reduction {}", static_cast<int>(op));
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << to_string(op); }

ReduceOp parse_reduce_op(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (equal_in_any_case(kNames[i], name)) return static_cast<ReduceOp>(i);
  }
  raise(Code::InvalidArgument,
        "[ReduceOp] the reduction must be sum, mean, min, max or product, got '{}'", name);
}

ReduceOp reduce_op_of(VariableAggregation aggregation) {
  if (aggregation == VariableAggregation::Sum) return ReduceOp::Sum;
  if (aggregation == VariableAggregation::Mean) return ReduceOp::Mean;
  raise(Code::InvalidArgument, "[ReduceOp] the aggregation must be Sum or Mean, got {}",
        aggregation == VariableAggregation::None ? "None" : "OnlyFirstReplica");
}

CommunicationImplementation parse_communication_implementation(std::string_view name) {
  if (equal_in_any_case(name, "auto")) return CommunicationImplementation::Auto;
  if (equal_in_any_case(name, "ring")) return CommunicationImplementation::Ring;
  if (equal_in_any_case(name, "nccl")) return CommunicationImplementation::Nccl;
  raise(Code::InvalidArgument,
        "[CommunicationOptions] implementation must be auto, ring or nccl, got '{}'", name);
}

void check(const CommunicationOptions& options) {
  if (options.bytes_per_pack < 0) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] bytes_per_pack must be 0 (one pack) or more, got {}",
          options.bytes_per_pack);
  }
  if (options.timeout && options.timeout->count() < 0) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] timeout must be 0 (no limit) or positive, got {} s; the largest "
          "value of a coarser duration does not fit into nanoseconds",
          std::chrono::duration<double>(*options.timeout).count());
  }
  const auto implementation = static_cast<int>(options.implementation);
  if (implementation < 0 || implementation > static_cast<int>(CommunicationImplementation::Nccl)) {
    raise(Code::InvalidArgument,
          "[CommunicationOptions] implementation must be Auto, Ring or Nccl, got number {}",
          implementation);
  }
}

CommunicationOptions CommunicationOptions::merged_with(const CommunicationOptions& other) const {
  CommunicationOptions merged = *this;
  if (other.bytes_per_pack != 0) merged.bytes_per_pack = other.bytes_per_pack;
  if (other.timeout) merged.timeout = other.timeout;
  if (other.implementation != CommunicationImplementation::Auto) {
    merged.implementation = other.implementation;
  }
  return merged;
}

Destinations::Destinations(std::string_view device) {
  if (device.empty()) {
    raise(Code::InvalidArgument,
          "[Destinations] a device's name is empty; give a device, a tensor, a variable or a "
          "distributed value");
  }
  devices_ = {resolve(device)};
}

Destinations::Destinations(const Tensor& tensor) : Destinations(DistributedValue(tensor)) {}

Destinations::Destinations(const Variable& variable) : Destinations(DistributedValue(variable)) {}

Destinations::Destinations(const DistributedValue& value)
    : Destinations(of_devices(value.devices())) {}

Destinations Destinations::of_devices(std::vector<std::string> devices) {
  if (devices.empty()) {
    raise(Code::InvalidArgument,
          "[Destinations] the list of devices is empty; give at least one device for the result");
  }
  Destinations made(std::string_view("CPU:0"));
  for (std::string& device : devices) device = resolve(device);
  made.devices_ = std::move(devices);
  return made;
}

// ---- Reductions

namespace {

DistributedValue mirrored(const std::vector<Tensor>& copies) {
  return {Kind::Mirrored, {copies.begin(), copies.end()}};
}

std::vector<Tensor> components_on(const std::string& device, const DistributedValue& value) {
  std::vector<Tensor> moved;
  for (const Gradient& component : value.components()) {
    moved.push_back(internal::on_device(component.dense(), device));
  }
  return moved;
}

// Whether the request has nothing to add up and is where it should be.
bool is_copy(const ReduceRequest& request) {
  return request.value.size() == 1 && request.value.devices() == request.destinations.devices();
}

DistributedValue reduce_sparse(ReduceOp op, const ReduceRequest& request) {
  std::vector<Gradient> copies;
  for (const std::string& device : request.destinations.devices()) {
    const DeviceScope on(device);
    copies.emplace_back(internal::join_slices(op, request.value.components()));
  }
  return {Kind::Mirrored, std::move(copies)};
}

// The sum, min, max or product divided, where a mean is asked for.
std::vector<Tensor> divided(const std::vector<Tensor>& totals, const ReduceRequest& request) {
  std::vector<Tensor> means;
  for (size_t i = 0; i < totals.size(); ++i) {
    const std::string& device = request.destinations.devices()[i];
    // Results on devices of one memory are the same tensor, which is divided once.
    if (i > 0 && internal::same_memory(totals[i], totals[0])) {
      means.push_back(internal::on_device(means[0], device));
      continue;
    }
    const DeviceScope on(device);
    means.push_back(div(totals[i], static_cast<int64_t>(request.value.size())));
  }
  return means;
}

// Requests that are dense and of one dtype, and where each stands in the batch.
struct DenseGroup {
  std::vector<ReduceRequest> requests;
  std::vector<size_t> positions;
};

// A batch that is being reduced. Requests that need no algorithm are done at once, the others are
// grouped by dtype.
class Batch {
 public:
  Batch(ReduceOp op, std::span<const ReduceRequest> requests) : op_(op), results_(requests.size()) {
    for (size_t i = 0; i < requests.size(); ++i) take(requests[i], i);
  }

  const std::map<DType, DenseGroup>& groups() const { return groups_; }

  // `reduced` are the totals of the group's requests.
  void finish(const DenseGroup& group, const std::vector<std::vector<Tensor>>& reduced) {
    for (size_t k = 0; k < reduced.size(); ++k) {
      results_[group.positions[k]] =
          mirrored(op_ == ReduceOp::Mean ? divided(reduced[k], group.requests[k]) : reduced[k]);
    }
  }

  std::vector<DistributedValue> results() {
    std::vector<DistributedValue> ordered;
    for (std::optional<DistributedValue>& result : results_) ordered.push_back(*std::move(result));
    return ordered;
  }

 private:
  void take(const ReduceRequest& request, size_t position) {
    const bool adds = op_ == ReduceOp::Sum || op_ == ReduceOp::Mean;
    internal::check_reducible("reduce", request.value.components());
    if (is_copy(request)) {
      results_[position] = DistributedValue(Kind::Mirrored, request.value.components());
    } else if (adds && internal::any_sparse(request.value.components())) {
      results_[position] = reduce_sparse(op_, request);
    } else {
      std::vector<Gradient> dense;
      for (const Gradient& part : request.value.components()) dense.emplace_back(part.dense());
      DenseGroup& group = groups_[dense[0].dense().dtype()];
      group.requests.push_back({{Kind::PerReplica, std::move(dense)}, request.destinations});
      group.positions.push_back(position);
    }
  }

  const ReduceOp op_;
  std::vector<std::optional<DistributedValue>> results_;
  std::map<DType, DenseGroup> groups_;
};

// Checks the results for the request number `i` of a call of reduce_dense.
void check_results_of(const CrossDeviceOps& ops, const ReduceRequest& request, size_t i,
                      const std::vector<Tensor>& results) {
  const size_t destinations = request.destinations.devices().size();
  if (results.size() != destinations) {
    raise(Code::InvalidArgument,
          "[{}] reduce_dense returned {} tensors for request {}, which has {} destinations; it "
          "must return one tensor for each destination",
          ops.to_string(), results.size(), i, destinations);
  }
  const Tensor wanted = request.value[0].dense();
  for (const Tensor& result : results) {
    if (result.defined() && result.dtype() == wanted.dtype() &&
        result.shape().is_compatible_with(wanted.shape())) {
      continue;
    }
    raise(Code::InvalidArgument, "[{}] reduce_dense returned {} for request {}, expected {}",
          ops.to_string(),
          result.defined() ? internal::describe(result) : "a tensor that holds nothing", i,
          internal::describe(wanted));
  }
}

// Checks the result, because an algorithm of the user may return anything.
void check_results(const CrossDeviceOps& ops, std::span<const ReduceRequest> requests,
                   const std::vector<std::vector<Tensor>>& results) {
  if (results.size() != requests.size()) {
    raise(Code::InvalidArgument,
          "[{}] reduce_dense returned the results of {} requests, expected those of {} requests",
          ops.to_string(), results.size(), requests.size());
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    check_results_of(ops, requests[i], i, results[i]);
  }
}

// Throws the error of reduce_dense that is being handled. An algorithm of the user that needs
// values fails in a trace.
[[noreturn]] void raise_from_reduce_dense(const CrossDeviceOps& ops, const ReduceRequest& request,
                                          const Status& status) {
  if (status.code != Code::FailedPrecondition || !request.value[0].dense().is_symbolic()) {
    throw;
  }
  throw Error(Status{
      .code = status.code,
      .message = fmt::format("[{}] reduce_dense failed while a function was traced, where it gets "
                             "symbols in place of values; use Cohort's ops only",
                             ops.to_string()),
      .origin = status.origin,
      .derived = status.derived,
      .cause = std::make_shared<const Status>(status)});
}

void check_op(ReduceOp op) {
  const auto number = static_cast<int>(op);
  if (number >= 0 && number <= static_cast<int>(ReduceOp::Product)) return;
  raise(Code::InvalidArgument, "[reduce] there is no reduction number {}", number);
}

struct Choice {
  std::shared_ptr<CrossDeviceOps> ops;
  std::string_view reason;
};

Choice choose(std::span<const std::string> devices) {
  const auto is_cpu = [](const std::string& device) {
    return DeviceName::parse_any_form(device).type.value_or("CPU") == "CPU";
  };
  const auto cpus = std::count_if(devices.begin(), devices.end(), is_cpu);
  if (cpus == std::ssize(devices)) {
    return {std::make_shared<DirectAllReduce>(), "all devices are CPUs of this process"};
  }
  if (cpus > 0) {
    return {std::make_shared<ReductionToOneDevice>(), "the devices are CPUs and accelerators"};
  }
  if (internal::has_gpus()) {  // NCCL would take their addresses for those of CUDA
    return {std::make_shared<ReductionToOneDevice>(), "the GPUs are simulated"};
  }
  if (internal::nccl_library() == nullptr) {
    return {std::make_shared<ReductionToOneDevice>(), "the devices are GPUs, but there is no NCCL"};
  }
  return {std::make_shared<NcclAllReduce>(), "all devices are GPUs"};
}

}  // namespace

DistributedValue CrossDeviceOps::reduce(ReduceOp op, const DistributedValue& value,
                                        const Destinations& destinations,
                                        const CommunicationOptions& options) {
  const ReduceRequest request{value, destinations};
  return batch_reduce(op, {&request, 1}, options)[0];
}

std::vector<DistributedValue> CrossDeviceOps::batch_reduce(ReduceOp op,
                                                           std::span<const ReduceRequest> requests,
                                                           const CommunicationOptions& options) {
  check_op(op);
  check(options);
  Batch batch(op, requests);
  for (const auto& [dtype, group] : batch.groups()) {
    std::vector<std::vector<Tensor>> reduced;
    try {
      reduced = reduce_dense(op == ReduceOp::Mean ? ReduceOp::Sum : op, group.requests, options);
    } catch (const Error& error) {
      raise_from_reduce_dense(*this, group.requests[0], error.status());
    }
    check_results(*this, group.requests, reduced);
    batch.finish(group, reduced);
  }
  return batch.results();
}

DistributedValue CrossDeviceOps::broadcast(const Tensor& value, const Destinations& destinations) {
  return mirrored(internal::on_devices(value, destinations.devices()));
}

DistributedValue CrossDeviceOps::gather(const DistributedValue& value,
                                        const Destinations& destinations, int axis,
                                        const CommunicationOptions& options) {
  check(options);
  internal::check_gatherable("gather", value.components(), axis);
  const std::string& first = destinations.devices()[0];
  const DeviceScope on(first);
  const std::vector<Tensor> parts = components_on(first, value);
  const Tensor joined = parts.size() == 1 ? parts[0] : concat(parts, axis);
  return mirrored(internal::on_devices(joined, destinations.devices()));
}

ReductionToOneDevice::ReductionToOneDevice(std::string reduce_to_device, Accumulate accumulate)
    : device_(reduce_to_device.empty() ? "" : canonical_device(reduce_to_device)),
      accumulate_(std::move(accumulate)) {}

std::string ReductionToOneDevice::to_string() const {
  return fmt::format("ReductionToOneDevice({})", device_.empty() ? "first destination" : device_);
}

std::vector<std::vector<Tensor>> ReductionToOneDevice::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions&) {
  std::vector<std::vector<Tensor>> results;
  for (const ReduceRequest& request : requests) {
    const std::vector<std::string>& destinations = request.destinations.devices();
    const std::string& device = device_.empty() ? destinations[0] : device_;
    const DeviceScope on(device);
    const std::vector<Tensor> moved = components_on(device, request.value);
    const bool custom = accumulate_ && op == ReduceOp::Sum;
    const Tensor total = custom ? accumulate_(moved) : internal::reduce_tensors(op, moved);
    results.push_back(internal::on_devices(total, destinations));
  }
  return results;
}

std::string DirectAllReduce::to_string() const { return "DirectAllReduce()"; }

std::vector<std::vector<Tensor>> DirectAllReduce::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions&) {
  std::vector<std::vector<Tensor>> results;
  for (const ReduceRequest& request : requests) {
    const std::vector<std::string>& devices = request.destinations.devices();
    const DeviceScope on(devices[0]);
    const std::vector<Tensor> moved = components_on(devices[0], request.value);
    const Tensor total = internal::reduce_tensors(op, moved, moved.size());
    results.push_back(internal::on_devices(total, devices));
  }
  return results;
}

std::shared_ptr<CrossDeviceOps> default_cross_device_ops(std::span<const std::string> devices) {
  Choice choice = choose(devices);
  internal::log_info("[CrossDeviceOps] using {} between {} devices, because {}",
                     choice.ops->to_string(), devices.size(), choice.reason);
  return std::move(choice.ops);
}

}  // namespace cohort
