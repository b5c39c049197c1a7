#include <algorithm>

#include "cohort/example.pb.h"
#include "cohort/readers.h"
#include "data/batch_rows.h"
#include "data/element_access.h"
#include "data/node.h"

namespace cohort::data {
namespace internal {
namespace {

// The number and the type of one feature's values.
struct Values {
  int64_t count = 0;
  DType dtype = kFloat32;
};

Values values_of(const proto::Feature& feature) {
  switch (feature.kind_case()) {
    case proto::Feature::kFloatList:
      return {feature.float_list().value_size(), kFloat32};
    case proto::Feature::kInt64List:
      return {feature.int64_list().value_size(), kInt64};
    case proto::Feature::kBytesList:
      return {feature.bytes_list().value_size(), kString};
    default:
      return {0, kResource};  // the feature has no values
  }
}

Tensor to_tensor(const proto::Feature& feature, DType dtype, const Shape& shape) {
  if (dtype == kFloat32) {
    const auto& list = feature.float_list().value();
    return Tensor::from(std::span<const float>(list.data(), static_cast<size_t>(list.size())),
                        shape);
  }
  if (dtype == kInt64) {
    const auto& list = feature.int64_list().value();
    return Tensor::from(std::vector<int64_t>(list.begin(), list.end()), shape);
  }
  const auto& list = feature.bytes_list().value();
  return Tensor::from(std::vector<std::string>(list.begin(), list.end()), shape);
}

// Returns the described shape with its unknown first size filled in; nullopt if `count` does not
// fit.
std::optional<Shape> shape_for(const Shape& described, int64_t count) {
  Shape shape = described;
  int64_t product = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] >= 0 && __builtin_mul_overflow(product, shape[axis], &product))
      return std::nullopt;
  }
  if (shape.rank() > 0 && shape[0] < 0) {
    if (product == 0 || count % product != 0) return std::nullopt;
    return shape.with(0, count / product);
  }
  return product == count ? std::optional(shape) : std::nullopt;
}

Tensor read_feature(const proto::Example& example, const std::string& name, const Feature& wanted) {
  const auto& features = example.features().feature();
  const auto found = features.find(name);
  const Values values = found == features.end() ? Values{0, kResource} : values_of(found->second);
  if (values.dtype == kResource) {
    if (wanted.fallback) return *wanted.fallback;
    raise(Code::InvalidArgument, "[ParseExample] the example has no feature '{}'", name);
  }
  if (values.dtype != wanted.dtype) {
    raise(Code::InvalidArgument, "[ParseExample] feature '{}' is {}, but {} was expected", name,
          to_string(values.dtype), to_string(wanted.dtype));
  }
  const std::optional<Shape> shape = shape_for(wanted.shape, values.count);
  if (!shape) {
    raise(Code::InvalidArgument,
          "[ParseExample] feature '{}' has {} values, but shape {} was expected", name,
          values.count, wanted.shape.to_string());
  }
  return to_tensor(found->second, values.dtype, *shape);
}

void check_feature(const std::string& name, const Feature& feature) {
  if (feature.dtype != kFloat32 && feature.dtype != kInt64 && feature.dtype != kString) {
    raise(Code::InvalidArgument,
          "[ParseExample] feature '{}' cannot be {}: examples hold float32, int64 and string", name,
          to_string(feature.dtype));
  }
  const Shape& shape = feature.shape;
  for (int axis = 0; axis < std::max(1, shape.rank()); ++axis) {
    if (!shape.has_rank() || (axis > 0 && shape[axis] < 0)) {
      raise(Code::InvalidArgument,
            "[ParseExample] feature '{}': only the first size may be unknown, got {}", name,
            shape.to_string());
    }
  }
  if (feature.fallback && feature.fallback->dtype() != feature.dtype) {
    raise(Code::InvalidArgument, "[ParseExample] the fallback of feature '{}' must be {}, got {}",
          name, to_string(feature.dtype), to_string(feature.fallback->dtype()));
  }
}

void add_values(const Tensor& tensor, const std::string& name, proto::Feature& feature) {
  if (tensor.dtype() == kString) {
    for (const std::string& value : tensor.data<std::string>()) {
      feature.mutable_bytes_list()->add_value(value);
    }
    feature.mutable_bytes_list();
  } else if (is_floating(tensor.dtype())) {
    if (tensor.dtype() == kFloat64) {
      raise(Code::InvalidArgument,
            "[MakeExample] '{}' is float64, which examples cannot hold; cast it to float32", name);
    }
    const std::vector<float> values = tensor.to_vector<float>();
    feature.mutable_float_list()->mutable_value()->Add(values.begin(), values.end());
  } else {
    const std::vector<int64_t> values = tensor.to_vector<int64_t>();
    feature.mutable_int64_list()->mutable_value()->Add(values.begin(), values.end());
  }
}

}  // namespace
}  // namespace internal

Element parse_example(const std::string& bytes, const Features& features) {
  proto::Example example;
  if (!example.ParseFromString(bytes)) {
    internal::raise(Code::InvalidArgument, "[ParseExample] these {} bytes are not a tf.Example",
                    bytes.size());
  }
  std::vector<std::pair<std::string, Element>> parts;
  for (const auto& [name, feature] : features) {
    internal::check_feature(name, feature);
    parts.emplace_back(name, internal::read_feature(example, name, feature));
  }
  return Element::map(std::move(parts));
}

Function example_parser(Features features) {
  for (const auto& [name, feature] : features) internal::check_feature(name, feature);
  return [features = std::move(features)](const std::string& bytes) {
    return parse_example(bytes, features);
  };
}

std::string make_example(const Element& element) {
  if (!element.is_map()) {
    internal::raise(Code::InvalidArgument, "[MakeExample] needs a map by name, got {}",
                    internal::to_string(*internal::structure_of(element)));
  }
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const std::string& name : element.names()) {
    internal::add_values(element[name].tensor(), name, features[name]);
  }
  return example.SerializeAsString();
}

}  // namespace cohort::data
