#include "coordinator/remote_cell.h"

#include <fmt/ranges.h>

#include "base/raise.h"
#include "coordinator/parameter_servers.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// One plan on the server serves values of all sizes: rows of a gradient differ from step to step.
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

// What tells the call from others that need another plan.
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

}  // namespace

RemoteCell::RemoteCell(std::string name, DeviceName device,
                       std::shared_ptr<ParameterServers> servers, std::shared_ptr<const void> lease)
    : VariableCell(std::move(name)),
      device_(std::move(device)),
      servers_(std::move(servers)),
      lease_(std::move(lease)) {}

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
  const RecordingPause unheard;
  std::vector<Tensor> results;
  const Status status = capture_status([&] {
    results = servers_->run(
        device_,
        {.key = key_of(op, inputs, attrs), .make = make, .values = values, .uses = variables});
  });
  if (status.code == Code::Unavailable) throw Error(lost_with_its_server(status));
  throw_if_error(status);
  return results;
}

Status RemoteCell::lost_with_its_server(const Status& why) const {
  const std::string ps = device_.split().first;
  return {.code = why.code,
          .message =
              fmt::format("[Variable] '{}' is on parameter server {}, which is lost", name(), ps),
          .origin = ps,
          .cause = std::make_shared<const Status>(why)};
}

}  // namespace cohort::internal
