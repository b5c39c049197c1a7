#include "coordinator/remote_variable.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "coordinator/remote_cell.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "tensor/print.h"

namespace cohort::internal {
namespace {

bool is_tracing() { return thread_dispatch().builder != nullptr; }

Specs specs_of(const std::vector<Tensor>& values) {
  Specs specs;
  for (const Tensor& value : values) specs.push_back({value.dtype(), value.shape()});
  return specs;
}

std::string key_of(std::string_view what, const std::string& name, const Specs& specs) {
  std::string key = fmt::format("{} {}", what, name);
  for (const Spec& spec : specs) {
    key += fmt::format(" {} {}", to_string(spec.dtype), spec.shape.to_string());
  }
  return key;
}

}  // namespace

RemoteVariable::RemoteVariable(const VariableOptions& options, const Shape& shape, DType dtype,
                               Place place)
    : SingleVariable(options), place_(std::move(place)) {
  const ParameterServers::Lease lease = place_.servers->lease(place_.device, place_.unique_name);
  lease_ = lease;
  handle_ = {make_resource(std::make_shared<RemoteCell>(place_.unique_name, place_.device, lease)),
             options.name, dtype, shape};
}

Tensor RemoteVariable::there(std::string_view what, const std::vector<Tensor>& values,
                             const Body& body) const {
  const Specs specs = specs_of(values);
  const auto make = [&] {
    return trace(std::string(what), specs, [&](std::span<const Tensor> symbols) {
      return std::vector<Tensor>{body(symbols)};
    });
  };
  const RecordingPause unheard;
  return place_.servers
      ->run(place_.device, {.key = key_of(what, place_.unique_name, specs),
                            .make = make,
                            .values = values,
                            .variable = place_.unique_name})
      .at(0);
}

// It had a value when it was made. Who saves it must not take it for one that never had any.
bool RemoteVariable::is_initialized() const {
  const Tensor has_value = there("is_initialized", {}, [this](std::span<const Tensor>) {
    return is_variable_initialized(handle_);
  });
  if (has_value.to<bool>()) return true;
  raise(Code::Unavailable,
        "[Variable] '{}' is lost: {} was started again without it; restore a checkpoint", name(),
        place_.device.split().first);
}

Tensor RemoteVariable::read() const {
  if (is_tracing()) return SingleVariable::read();
  const Tensor value = there(
      "read", {}, [this](std::span<const Tensor>) { return read_variable(handle_, trainable()); });
  return note_read(handle_, value, trainable());
}

Tensor RemoteVariable::assign(const Tensor& value) {
  if (is_tracing()) return SingleVariable::assign(value);
  return there("assign", {value},
               [this](std::span<const Tensor> given) { return SingleVariable::assign(given[0]); });
}

Tensor RemoteVariable::assign_add(const Tensor& delta) {
  if (is_tracing()) return SingleVariable::assign_add(delta);
  return there("assign_add", {delta}, [this](std::span<const Tensor> given) {
    return SingleVariable::assign_add(given[0]);
  });
}

Tensor RemoteVariable::assign_sub(const Tensor& delta) {
  if (is_tracing()) return SingleVariable::assign_sub(delta);
  return there("assign_sub", {delta}, [this](std::span<const Tensor> given) {
    return SingleVariable::assign_sub(given[0]);
  });
}

Tensor RemoteVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  if (is_tracing()) return SingleVariable::scatter(op, slices);
  return there(fmt::format("scatter_{}", static_cast<int>(op)), {slices.values, slices.indices},
               [&](std::span<const Tensor> given) {
                 return SingleVariable::scatter(op, {given[0], given[1], slices.dense_shape});
               });
}

std::shared_ptr<VariableImpl> RemoteVariable::deep_copy() const {
  Place place = place_;
  place.unique_name = place_.servers->unique_name(place_.unique_name + "/copy");
  const auto copy =
      std::make_shared<RemoteVariable>(options_, handle_.shape, handle_.dtype, std::move(place));
  copy->strategy = strategy;
  copy->assign(read());
  return copy;
}

std::string RemoteVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                     handle_.shape.to_string(), cohort::to_string(handle_.dtype),
                     format_like_python(read()));
}

}  // namespace cohort::internal
