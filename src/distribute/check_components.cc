#include "distribute/check_components.h"

#include "base/raise.h"
#include "distribute/reduce_tensors.h"

namespace cohort::internal {
namespace {

DType dtype_of_component(const Gradient& component) {
  return component.is_sparse() ? component.slices().values.dtype() : component.dense().dtype();
}
Shape shape_of(const Gradient& component) {
  return component.is_sparse() ? component.slices().dense_shape : component.dense().shape();
}

void check_defined(std::string_view what, std::span<const Gradient> components) {
  if (components.empty()) raise(Code::InvalidArgument, "[{}] the value has no components", what);
  for (size_t i = 0; i < components.size(); ++i) {
    if (components[i].defined()) continue;
    raise(Code::InvalidArgument, "[{}] the value of replica {} holds nothing", what, i);
  }
}

void check_number(std::string_view what, const Gradient& component, size_t replica) {
  const DType dtype = dtype_of_component(component);
  if (is_floating(dtype) || is_integer(dtype)) return;
  raise(Code::InvalidArgument,
        "[{}] the value of replica {} is {}, but only integers and floats can be reduced; cast() "
        "converts",
        what, replica, describe(component));
}

[[noreturn]] void raise_different(std::string_view what, std::string_view property,
                                  std::span<const Gradient> components, size_t other) {
  raise(Code::InvalidArgument, "[{}] {} differ: {} on replica 0, {} on replica {}", what, property,
        describe(components[0]), describe(components[other]), other);
}

void check_one_dtype(std::string_view what, std::span<const Gradient> components) {
  const DType dtype = dtype_of_component(components[0]);
  for (size_t i = 1; i < components.size(); ++i) {
    if (dtype_of_component(components[i]) != dtype) {
      raise_different(what, "dtypes", components, i);
    }
  }
}

// The shape without the axis that may differ.
Shape beside(const Shape& shape, int axis) {
  return shape.has_rank() && axis < shape.rank() ? shape.with(axis, Shape::kUnknownDim) : shape;
}

void check_axis(std::string_view what, std::span<const Gradient> components, int axis) {
  for (size_t i = 0; i < components.size(); ++i) {
    const Shape shape = shape_of(components[i]);
    if (!shape.has_rank() || (axis >= 0 && axis < shape.rank())) continue;
    if (shape.rank() == 0) {
      raise(Code::InvalidArgument,
            "[{}] the value of replica {} is a scalar, which has no axis to gather along; "
            "expand_dims() makes one",
            what, i);
    }
    raise(Code::InvalidArgument,
          "[{}] axis {} is outside of 0 to {}: the value of replica {} has shape {}", what, axis,
          shape.rank() - 1, i, shape.to_string());
  }
}

}  // namespace

void check_reducible(std::string_view what, std::span<const Gradient> components) {
  check_defined(what, components);
  for (size_t i = 0; i < components.size(); ++i) check_number(what, components[i], i);
  check_one_dtype(what, components);
  const Shape shape = shape_of(components[0]);
  for (size_t i = 1; i < components.size(); ++i) {
    if (!shape_of(components[i]).is_compatible_with(shape)) {
      raise_different(what, "shapes", components, i);
    }
  }
}

void check_gatherable(std::string_view what, std::span<const Gradient> components, int axis) {
  check_defined(what, components);
  for (size_t i = 0; i < components.size(); ++i) {
    if (!components[i].is_sparse()) continue;
    raise(Code::Unimplemented,
          "[{}] the value of replica {} is {}; rows cannot be gathered, but to_dense() can", what,
          i, describe(components[i]));
  }
  check_axis(what, components, axis);
  check_one_dtype(what, components);
  const Shape shape = beside(shape_of(components[0]), axis);
  for (size_t i = 1; i < components.size(); ++i) {
    if (!beside(shape_of(components[i]), axis).is_compatible_with(shape)) {
      raise_different(what, fmt::format("shapes beside axis {}", axis), components, i);
    }
  }
}

}  // namespace cohort::internal
