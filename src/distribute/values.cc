#include "cohort/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/distributed_variable.h"
#include "distribute/variables.h"
#include "ops/variable_cell.h"
#include "tensor/devices.h"

namespace cohort {
namespace internal {

void throw_not_one_value(size_t components) {
  raise(Code::Unimplemented,
        "[PerReplica] has {} values, one for each replica, where one is wanted; reduce() or "
        "gather() them, take them apart with local_results(), or use them inside run()",
        components);
}

void throw_no_component(size_t index, size_t components) {
  raise(Code::InvalidArgument, "[PerReplica] has no component {}: it has {}", index, components);
}

void throw_lengths_differ(size_t replica, size_t length, size_t first_length) {
  raise(
      Code::InvalidArgument,
      "[Strategy] replica {} has a list of {} values where replica 0 has one of {}; replicas must "
      "give the same structure",
      replica, length, first_length);
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
  if (variable_) return variable_->read_value();
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
