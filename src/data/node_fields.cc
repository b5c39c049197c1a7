#include "data/node_fields.h"

#include <limits>

#include "data/element_spec.h"
#include "ops/op.h"

namespace cohort::data::internal {

// Less common types are converted to the types that every implementation has.

void Fields::field(std::string_view name, bool& value) {
  int64_t number = value ? 1 : 0;
  field(name, number);
  value = number != 0;
}

void Fields::field(std::string_view name, int& value) {
  int64_t number = value;
  field(name, number);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
    raise(Code::InvalidArgument, "[Dataset] the value {} of '{}' is out of range", number, name);
  }
  value = static_cast<int>(number);
}

void Fields::field(std::string_view name, uint64_t& value) {
  auto number = static_cast<int64_t>(value);
  field(name, number);
  value = static_cast<uint64_t>(number);
}

void Fields::field(std::string_view name, Seed& value) {
  field(name, value.value);
  field(fmt::format("{}_drawn", name), value.drawn);
}

void Fields::field(std::string_view name, std::optional<bool>& value) {
  int64_t number = value ? (*value ? 1 : 0) : -1;
  field(name, number);
  value = number < 0 ? std::nullopt : std::optional(number != 0);
}

void Fields::field(std::string_view name, std::optional<ElementSpec>& value) {
  std::string structure = value ? to_string(*value->structure()) : "";  // empty: no spec
  std::vector<int64_t> packed = value ? packed_tensors(*value) : std::vector<int64_t>();
  field(fmt::format("{}_structure", name), structure);
  field(fmt::format("{}_tensors", name), packed);
  value.reset();
  if (structure.empty()) return;
  std::vector<TensorSpec> tensors;
  for (const auto& [dtype, shape] : cohort::internal::unpack_specs("Dataset", packed)) {
    tensors.push_back({dtype, shape});
  }
  value.emplace(parse_structure(structure), std::move(tensors));
}

void Fields::field(std::string_view name, std::vector<int64_t>& value) {
  Element list(Tensor::from(value));
  field(name, list);
  value = list.tensor().to_vector<int64_t>();
}

void Fields::field(std::string_view name, std::vector<double>& value) {
  Element list(Tensor::from(value));
  field(name, list);
  value = list.tensor().to_vector<double>();
}

void Fields::field(std::string_view name, std::vector<Tensor>& value) {
  Element list = Element::tuple(value);
  field(name, list);
  value = list.tensors();
}

void Fields::field(std::string_view name, std::vector<Shape>& value) {
  std::vector<Tensor> sizes;
  for (const Shape& shape : value) sizes.push_back(Tensor::from(shape.to_vector()));
  field(name, sizes);
  value.clear();
  for (const Tensor& shape : sizes) value.emplace_back(shape.to_vector<int64_t>());
}

}  // namespace cohort::data::internal
