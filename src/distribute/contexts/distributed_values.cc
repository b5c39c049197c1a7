#include "distribute/contexts/distributed_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/raise.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_kinds.h"
#include "ops/variable_cell.h"
#include "tensor/body.h"
#include "tensor/devices.h"

namespace cohort {
namespace internal {
namespace {

using Kind = DistributedValue::Kind;

bool keeps_equal_values(ReduceOp op) {
  return op == ReduceOp::Mean || op == ReduceOp::Min || op == ReduceOp::Max;
}

bool is_zero_number(const DistributedValue& value) {
  return value.is_number() && value[0].dense().to<double>() == 0;
}

// Made of a C++ number, whose dtype gives way: what it is written to decides.
bool takes_any_dtype(const Tensor& value) {
  return value.defined() && body(value).weak && value.shape().rank() == 0;
}

[[noreturn]] void raise_not_distributed(ReduceOp op, const DistributedValue& value, int replicas) {
  raise(Code::InvalidArgument,
        "[reduce] {} over {} replicas needs one value for each replica, got {}, which is the same "
        "for all of them; reduce what run() returned, or multiply by num_replicas_in_sync()",
        to_string(op), replicas, value.to_string());
}

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
        "[{}] the value of replica {} is {}, but only integers and floats can be reduced; convert "
        "it with cast()",
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

bool is_common(const DistributedValue& value) {
  if (value.kind() == Kind::PerReplica) return false;
  if (value.kind() != Kind::Variable) return true;
  const VariableImpl* const variable = VariableAccess::impl(value.variable()).get();
  return dynamic_cast<const SyncOnReadVariable*>(variable) == nullptr;
}

bool is_of_this_worker(const DistributedValue& value) {
  if (value.kind() == Kind::Variable) return distributed(value.variable()) == nullptr;
  return value.kind() == Kind::Plain;
}

DistributedValue broadcast_value(const Tensor& value, const Destinations& destinations,
                                 CrossDeviceOps& copying) {
  return takes_any_dtype(value) ? DistributedValue(value) : copying.broadcast(value, destinations);
}

std::optional<DistributedValue> reduce_undistributed(ReduceOp op, const DistributedValue& value,
                                                     const Destinations& destinations,
                                                     CrossDeviceOps& copying, int replicas) {
  if (!is_common(value)) return std::nullopt;
  if (replicas > 1 && !keeps_equal_values(op) && !is_zero_number(value)) {
    raise_not_distributed(op, value, replicas);
  }
  if (value.kind() == Kind::Mirrored) return value;
  const Gradient common = value.value();
  if (common.is_sparse()) return DistributedValue(common);
  return broadcast_value(common.dense(), destinations, copying);
}

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
          "[{}] the value of replica {} is {}; rows cannot be gathered; convert the value with "
          "to_dense()",
          what, i, describe(components[i]));
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

void throw_not_one_value(size_t components) {
  raise(Code::Unimplemented,
        "[PerReplica] expected one value, got {}, one for each replica; reduce() or gather() them, "
        "take them apart with local_results(), or use them inside run()",
        components);
}

void throw_no_component(size_t index, size_t components) {
  raise(Code::InvalidArgument,
        "[PerReplica] component {} does not exist: the value has {} components", index, components);
}

void throw_lengths_differ(size_t replica, size_t length, size_t first_length) {
  raise(
      Code::InvalidArgument,
      "[Strategy] replica {} has a list of {} values where replica 0 has one of {}; replicas must "
      "give the same structure",
      replica, length, first_length);
}

std::string length_text(size_t length) { return fmt::format("[{}]", length); }

std::string keys_text(const std::string& keys, const std::string& parts) {
  return fmt::format("{{{}}}{}", keys, parts);
}

void throw_keys_differ(size_t replica, const std::string& key) {
  raise(
      Code::InvalidArgument,
      "[Strategy] only one of replica 0 and replica {} has a value named '{}'; replicas must give "
      "the same structure",
      replica, key);
}

data::Element replace_parts(const data::Element& like, std::span<const Tensor> flat, size_t& next) {
  if (like.is_tensor()) return flat[next++];
  if (like.is_tuple()) {
    std::vector<data::Element> parts;
    for (size_t i = 0; i < like.size(); ++i) parts.push_back(replace_parts(like[i], flat, next));
    return data::Element::tuple(std::move(parts));
  }
  std::vector<std::pair<std::string, data::Element>> parts;
  for (const std::string& name : like.names()) {
    parts.emplace_back(name, replace_parts(like[name], flat, next));
  }
  return data::Element::map(std::move(parts));
}

void describe_parts(const data::Element& element, std::string& text) {
  text += '(';
  const std::vector<std::string> names =
      element.is_map() ? element.names() : std::vector<std::string>();
  for (size_t i = 0; !element.is_tensor() && i < element.size(); ++i) {
    if (!names.empty()) describe_constant(names[i], text);
    describe_parts(element[i], text);
  }
  text += ')';
}

void print_text(std::ostream& out, std::string_view text) { out << text; }

void print_index(std::ostream& out, size_t replica) {
  out << (replica == 0 ? "\n  " : ",\n  ") << replica << ": ";
}

void print_key(std::ostream& out, const std::string& key) { out << '\'' << key << '\''; }

void LeafTensors<data::Element>::collect(const data::Element& leaf, std::vector<Tensor>& flat) {
  for (const Tensor& tensor : leaf.tensors()) flat.push_back(tensor);
}

void LeafTensors<data::Element>::describe(const data::Element& leaf, std::string& text) {
  describe_parts(leaf, text);
}

data::Element LeafTensors<data::Element>::replace(const data::Element& like,
                                                  std::span<const Tensor> flat, size_t& next) {
  return replace_parts(like, flat, next);
}

void LeafTensors<DistributedValue>::collect(const DistributedValue& leaf,
                                            std::vector<Tensor>& flat) {
  if (leaf.kind() == DistributedValue::Kind::Variable) return;
  for (const Gradient& part : leaf.components()) LeafTensors<Gradient>::collect(part, flat);
}

void LeafTensors<DistributedValue>::describe(const DistributedValue& leaf, std::string& text) {
  text += std::to_string(leaf.size()) + std::to_string(static_cast<int>(leaf.kind()));
  if (leaf.kind() == DistributedValue::Kind::Variable) describe_constant(leaf.variable(), text);
}

DistributedValue LeafTensors<DistributedValue>::replace(const DistributedValue& like,
                                                        std::span<const Tensor> flat,
                                                        size_t& next) {
  if (like.kind() == DistributedValue::Kind::Variable) return like;
  std::vector<Gradient> parts;
  for (const Gradient& part : like.components()) {
    parts.push_back(LeafTensors<Gradient>::replace(part, flat, next));
  }
  return {like.kind(), std::move(parts)};
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  return TensorAccess::id(a) == TensorAccess::id(b);
}

bool same_variable(const Variable& a, const Variable& b) {
  return VariableAccess::impl(a) == VariableAccess::impl(b);
}

Gradient component_of(const DistributedValue& value, size_t index) {
  // Equal ones may be fewer than there are replicas: those of a variable with one copy.
  const bool own = value.kind() == DistributedValue::Kind::PerReplica || index < value.size();
  return value[own ? index : 0];
}

std::vector<Variable> local_copies(const Variable& variable) { return copies_of(variable); }

Variable whole_of_copy(const Variable& variable, size_t index) {
  const Variable whole = container_of(variable);
  const std::vector<Variable> copies = copies_of(whole);
  return index < copies.size() && same_variable(copies[index], variable) ? whole : variable;
}

Variable regroup_variables(std::span<const Variable* const> variables) {
  const Variable first = container_of(*variables.front());
  for (size_t r = 1; r < variables.size(); ++r) {
    if (same_variable(first, container_of(*variables[r]))) continue;
    raise(
        Code::InvalidArgument,
        "[Strategy] replica 0 gives variable '{}' and replica {} another one, '{}'; replicas must "
        "give the same variable, except to a merge function that takes a PerReplica<Variable>",
        first.name(), r, variables[r]->name());
  }
  return first;
}

DistributedValue regroup_values(std::span<const DistributedValue* const> values) {
  std::vector<Gradient> own;
  for (size_t r = 0; r < values.size(); ++r) own.push_back(component_of(*values[r], r));
  return {DistributedValue::Kind::PerReplica, std::move(own)};
}

}  // namespace internal

DistributedValue::DistributedValue(Gradient value) : kind_(Kind::Plain), components_{value} {}

DistributedValue::DistributedValue(const Variable& variable)
    : kind_(Kind::Variable), variable_(variable) {
  if (const auto whole = internal::distributed(variable)) whole->use("use");
  for (const Variable& copy : internal::copies_of(variable)) {
    components_.emplace_back(internal::read_copy(copy));
  }
}

DistributedValue::DistributedValue(const PerReplica<data::Element>& values)
    : kind_(Kind::PerReplica) {
  for (size_t r = 0; r < values.size(); ++r) components_.emplace_back(values[r].tensor());
}

DistributedValue::DistributedValue(Kind kind, std::vector<Gradient> components)
    : kind_(kind), components_(std::move(components)) {
  if (components_.empty()) {
    internal::raise(Code::InvalidArgument, "[DistributedValue] needs at least one component");
  }
}

const Gradient& DistributedValue::operator[](size_t index) const {
  if (index >= components_.size()) internal::throw_no_component(index, components_.size());
  return components_[index];
}

std::vector<std::string> DistributedValue::devices() const {
  std::vector<std::string> names;
  if (variable_) {
    for (const Variable& copy : internal::copies_of(*variable_)) names.push_back(copy.device());
    return names;
  }
  for (const Gradient& component : components_) {
    const Tensor& held = component.is_sparse() ? component.slices().values : component.dense();
    names.push_back(held.device());
  }
  return names;
}

const Variable& DistributedValue::variable() const {
  if (variable_) return *variable_;
  internal::raise(Code::InvalidArgument, "[DistributedValue] {} is not a variable", to_string());
}

Gradient DistributedValue::value() const {
  if (variable_) return variable_->read_value({});
  if (components_.size() == 1) return components_.front();
  if (const std::optional<size_t> own = internal::current_component()) return (*this)[*own];
  if (kind_ == Kind::PerReplica) internal::throw_not_one_value(components_.size());
  const std::vector<std::string> places = devices();
  const auto here = std::find(places.begin(), places.end(), internal::value_device().full_name);
  return components_[here == places.end() ? 0 : static_cast<size_t>(here - places.begin())];
}

std::string DistributedValue::to_string() const {
  std::ostringstream out;
  if (variable_) {
    out << *variable_;
  } else if (kind_ == Kind::Plain) {
    out << components_.front();
  } else {
    out << (kind_ == Kind::Mirrored ? "Mirrored" : "PerReplica") << ":{";
    for (size_t i = 0; i < components_.size(); ++i) {
      out << (i == 0 ? "\n  " : ",\n  ") << i << ": " << components_[i];
    }
    out << "\n}";
  }
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const DistributedValue& value) {
  return out << value.to_string();
}

}  // namespace cohort
