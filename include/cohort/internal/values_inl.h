#pragma once

// Comparing, selecting, regrouping and printing values of any C++ type, for strategies. Not for
// inclusion by users: include cohort/values.h.

#include <concepts>
#include <iosfwd>
#include <span>
#include <string_view>
#include <type_traits>

#include "cohort/internal/nest.h"
#include "cohort/internal/structure.h"
#include "cohort/values.h"

namespace cohort {
namespace internal {
template <>
inline constexpr bool is_tensor_like<PerReplica<Tensor>> = true;
template <>
inline constexpr bool is_tensor_like<DistributedValue> = true;

template <typename T>
inline constexpr bool is_distributed<PerReplica<T>> =
    std::convertible_to<const PerReplica<T>&, DistributedValue>;
template <>
inline constexpr bool is_distributed<DistributedValue> = true;
// Writes each component to its copy. Throws InvalidArgument if the rules for `target` demand one
// value for all copies.
Tensor write_parts(const Variable& target, Write write, const DistributedValue& value, Site site);
}  // namespace internal

}  // namespace cohort

template <cohort::internal::HasParts T>
struct std::tuple_size<cohort::PerReplica<T>> : std::tuple_size<cohort::internal::PartsOf<T>> {};
template <size_t I, cohort::internal::HasParts T>
struct std::tuple_element<I, cohort::PerReplica<T>> {
  using type = cohort::PerReplica<cohort::internal::PartOf<I, T>>;
};

namespace cohort {

// What `run` returns for a function that returns nothing.
template <>
class PerReplica<void> {
 public:
  explicit PerReplica(size_t size) : size_(size) {}
  size_t size() const { return size_; }

 private:
  size_t size_;
};

template <typename T>
const T& PerReplica<T>::operator[](size_t replica) const {
  if (replica >= values_.size()) internal::throw_no_component(replica, values_.size());
  return *values_[replica];
}

template <typename T>
T PerReplica<T>::value() const {
  if (collapsed_ || values_.size() == 1) return *values_.front();
  const std::optional<size_t> own = internal::current_component();
  if (!own) internal::throw_not_one_value(values_.size());
  return (*this)[*own];
}

template <typename T>
std::vector<Gradient> DistributedValue::gradients_of(const PerReplica<T>& values) {
  std::vector<Gradient> all;
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::convertible_to<const T&, Gradient>) {
      internal::append(all, values[i]);
    } else {
      internal::append(all, Gradient(static_cast<Tensor>(values[i])));
    }
  }
  return all;
}

namespace internal {

// --- Equality by identity

// Whether both share one value, by identity.
bool same_tensor(const Tensor& a, const Tensor& b);
bool same_variable(const Variable& a, const Variable& b);

// Types whose equal values count as the same value.
template <typename T>
concept PlainValue = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
    std::same_as<T, std::string> || std::same_as<T, std::string_view>;

template <typename T>
bool same_thing(const T& a, const T& b);

template <typename Tuple>
bool same_parts(const Tuple& a, const Tuple& b) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return (same_thing(std::get<I>(a), std::get<I>(b)) && ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
}

template <typename T>
concept IterableNest = requires(const T& values) {
  values.begin();
  values.end();
  values.size();
};

template <typename T>
bool same_elements(const T& a, const T& b) {
  if (a.size() != b.size()) return false;
  auto other = b.begin();
  for (const auto& element : a) {
    if (!same_thing(element, *other++)) return false;
  }
  return true;
}

template <typename T>
bool same_thing(const T& a, const T& b) {
  if constexpr (std::same_as<T, Tensor>) {
    return same_tensor(a, b);
  } else if constexpr (std::same_as<T, Variable>) {
    return same_variable(a, b);
  } else if constexpr (PlainValue<T>) {
    return a == b;
  } else if constexpr (!Nest<T>::kLeaf && IterableNest<T>) {
    return same_elements(a, b);
  } else if constexpr (!Nest<T>::kLeaf) {
    return same_parts(a, b);
  } else if constexpr (HasFields<T>) {
    return same_parts(Fields<T>::of(const_cast<T&>(a)), Fields<T>::of(const_cast<T&>(b)));
  } else {
    return false;
  }
}
// The entries of a map.
template <typename A, typename B>
bool same_thing(const std::pair<const A, B>& a, const std::pair<const A, B>& b) {
  return same_thing(a.first, b.first) && same_thing(a.second, b.second);
}

template <typename T>
bool all_same(const std::vector<std::optional<T>>& values) {
  for (size_t i = 1; i < values.size(); ++i) {
    if (!same_thing(*values[0], *values[i])) return false;
  }
  return true;
}

// --- Which C++ types are distributed values

template <typename T>
PerReplica<T> per_replica_base(const PerReplica<T>& value);
// PerReplica<T> and its derived classes.
template <typename T>
concept PerReplicaType = requires(const T& value) {
  per_replica_base(value);
};
template <PerReplicaType T>
using ComponentOf =
    std::remove_cvref_t<decltype(per_replica_base(std::declval<const T&>())[size_t{0}])>;

// Whether a T has a leaf of that kind.
template <typename T, template <typename> typename Kind>
struct HoldsLeaf : Kind<T> {};
template <typename T, template <typename> typename Kind>
struct HoldsLeaf<std::vector<T>, Kind> : HoldsLeaf<T, Kind> {};
template <typename Key, typename T, typename Less, template <typename> typename Kind>
struct HoldsLeaf<std::map<Key, T, Less>, Kind> : HoldsLeaf<T, Kind> {};
template <typename T, size_t N, template <typename> typename Kind>
struct HoldsLeaf<std::array<T, N>, Kind> : HoldsLeaf<T, Kind> {};
template <typename... T, template <typename> typename Kind>
struct HoldsLeaf<std::tuple<T...>, Kind> : std::disjunction<HoldsLeaf<T, Kind>...> {};
template <typename A, typename B, template <typename> typename Kind>
struct HoldsLeaf<std::pair<A, B>, Kind> : HoldsLeaf<std::tuple<A, B>, Kind> {};

// The fields of a struct may be distributed.
template <typename T>
using MayBeDistributed =
    std::bool_constant<PerReplicaType<T> || std::same_as<T, DistributedValue> ||
                       std::same_as<T, data::Element> || HasFields<T>>;
template <typename T>
using IsVariable = std::is_same<T, Variable>;

// --- select: the component of a value that replica (or copy) `index` sees. Variables pass whole.

Gradient component_of(const DistributedValue& value, size_t index);
// The value of a strategy with one replica has one component. Every index selects this component,
// also inside another strategy.
template <typename T>
const T& component_of(const PerReplica<T>& value, size_t index) {
  return value[value.size() == 1 ? 0 : index];
}

struct SelectLeaf {
  size_t index;
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (PerReplicaType<T> || std::same_as<T, DistributedValue>) {
      return component_of(leaf, index);
    } else if constexpr (std::same_as<T, data::Element>) {
      return data::internal::element_of_replica(leaf, index);
    } else {
      return leaf;
    }
  }
};

template <typename T>
decltype(auto) select(size_t index, const T& value) {
  if constexpr (HoldsLeaf<T, MayBeDistributed>::value) {
    return map_leaves(SelectLeaf{index}, value);
  } else {
    return static_cast<const T&>(value);
  }
}
template <typename T>
using Selected = decltype(select(size_t{0}, std::declval<const T&>()));

// --- regroup: makes one structure of distributed values from the replicas' structures.

// `variable`, or the distributed variable of which it is copy `index`.
Variable whole_of_copy(const Variable& variable, size_t index);

// Turns a replica's result into what all replicas see: the distributed variable for the replica's
// copy.
struct WholeVariables {
  size_t replica;
  template <typename T>
  T operator()(const T& leaf) const {
    if constexpr (std::same_as<T, Variable>) {
      return whole_of_copy(leaf, replica);
    } else {
      return leaf;
    }
  }
};

// The variable that all replicas refer to. Throws InvalidArgument if they refer to several.
Variable regroup_variables(std::span<const Variable* const> variables);
DistributedValue regroup_values(std::span<const DistributedValue* const> values);

struct RegroupLeaf {
  bool always_wrap = false;
  bool one_value = false;  // for a strategy without distributed values
  template <typename T>
  auto operator()(std::span<const T* const> leaves) const {
    if constexpr (std::same_as<T, Variable>) {
      return regroup_variables(leaves);
    } else if constexpr (std::same_as<T, DistributedValue>) {
      return regroup_values(leaves);
    } else if constexpr (PerReplicaType<T>) {
      // Each replica holds the whole value and refers to its own component.
      std::vector<std::optional<ComponentOf<T>>> own;
      for (size_t r = 0; r < leaves.size(); ++r) own.emplace_back(component_of(*leaves[r], r));
      return PerReplica<ComponentOf<T>>(std::move(own));
    } else {
      std::vector<std::optional<T>> values;
      for (const T* leaf : leaves) values.emplace_back(*leaf);
      const bool collapsed =
          one_value || (!always_wrap && (leaves.size() == 1 || all_same(values)));
      return PerReplica<T>(std::move(values), collapsed);
    }
  }
};

template <typename T>
auto regroup(std::span<const T* const> values, RegroupLeaf how = {}) {
  return zip_leaves(how, values);
}
template <typename T>
using Regrouped = ZippedLeaves<RegroupLeaf, T>;

// --- As arguments and results of traced functions

template <>
struct LeafTensors<data::Element> {
  static void collect(const data::Element& leaf, std::vector<Tensor>& flat);
  static void describe(const data::Element& leaf, std::string& text);
  static data::Element replace(const data::Element& like, std::span<const Tensor> flat,
                               size_t& next);
};

template <typename T>
requires(!std::is_void_v<T>) struct LeafTensors<PerReplica<T>> {
  static void collect(const PerReplica<T>& leaf, std::vector<Tensor>& flat) {
    for (size_t r = 0; r < leaf.size(); ++r) collect_tensors(leaf[r], flat);
  }
  // The description does not contain whether the values are the same.
  static void describe(const PerReplica<T>& leaf, std::string& text) {
    text += std::to_string(leaf.size()) + 'p';
    for (size_t r = 0; r < leaf.size(); ++r) describe_structure(leaf[r], text);
  }
  static PerReplica<T> replace(const PerReplica<T>& like, std::span<const Tensor> flat,
                               size_t& next) {
    std::vector<std::optional<T>> values;
    for (size_t r = 0; r < like.size(); ++r) {
      values.emplace_back(replace_tensors(like[r], flat, next));
    }
    const bool collapsed = like.collapsed() && all_same(values);
    return PerReplica<T>(std::move(values), collapsed);
  }
};

template <>
struct LeafTensors<DistributedValue> {
  static void collect(const DistributedValue& leaf, std::vector<Tensor>& flat);
  static void describe(const DistributedValue& leaf, std::string& text);
  static DistributedValue replace(const DistributedValue& like, std::span<const Tensor> flat,
                                  size_t& next);
};

// --- Printing

template <typename T>
concept Streamable = requires(std::ostream& out, const T& value) {
  out << value;
};

// Print without the stream's class, which this header does not need otherwise.
void print_text(std::ostream& out, std::string_view text);
void print_index(std::ostream& out, size_t replica);
void print_key(std::ostream& out, const std::string& key);

// All overloads are declared first, because structures may contain each other in any order.
template <typename T>
void print_to(std::ostream& out, const T& value);
template <typename T>
void print_to(std::ostream& out, const std::vector<T>& values);
template <typename Key, typename T, typename Less>
void print_to(std::ostream& out, const std::map<Key, T, Less>& values);

template <typename Tuple>
void print_parts(std::ostream& out, const Tuple& parts) {
  const char* separator = "(";
  std::apply(
      [&](const auto&... part) {
        ((print_text(out, separator), separator = ", ", print_to(out, part)), ...);
      },
      parts);
  print_text(out, std::tuple_size_v<Tuple> == 0 ? "()" : ")");
}

template <typename T>
void print_to(std::ostream& out, const std::vector<T>& values) {
  const char* separator = "[";
  for (const T& value : values) {
    print_text(out, separator);
    separator = ", ";
    print_to(out, value);
  }
  print_text(out, values.empty() ? "[]" : "]");
}

template <typename Key>
void print_key(std::ostream& out, const Key& key) {
  print_to(out, key);
}

template <typename Key, typename T, typename Less>
void print_to(std::ostream& out, const std::map<Key, T, Less>& values) {
  const char* separator = "{";
  for (const auto& [name, value] : values) {
    print_text(out, separator);
    print_key(out, name);
    print_text(out, ": ");
    separator = ", ";
    print_to(out, value);
  }
  print_text(out, values.empty() ? "{}" : "}");
}

template <typename T>
void print_to(std::ostream& out, const T& value) {
  if constexpr (Streamable<T>) {
    out << value;
  } else if constexpr (!Nest<T>::kLeaf) {
    print_parts(out, value);
  } else if constexpr (HasFields<T>) {
    print_parts(out, Fields<T>::of(const_cast<T&>(value)));
  } else {
    static_assert(Streamable<T>, "a value that is printed needs an operator<<");
  }
}

}  // namespace internal

template <typename T>
template <size_t I>
auto PerReplica<T>::get() const requires internal::HasParts<T> {
  std::vector<std::optional<internal::PartOf<I, T>>> parts;
  for (const std::optional<T>& value : values_) {
    parts.emplace_back();
    if (value) parts.back() = std::get<I>(internal::parts_of_structure(const_cast<T&>(*value)));
  }
  const bool same = collapsed_ || internal::all_same(parts);
  return PerReplica<internal::PartOf<I, T>>(std::move(parts), same);
}

// Prints "PerReplica:{\n  0: …,\n  1: …\n}", and a collapsed PerReplica as its value.
template <typename T>
std::ostream& operator<<(std::ostream& out, const PerReplica<T>& values) {
  if (values.collapsed()) {
    internal::print_to(out, values[0]);
    return out;
  }
  internal::print_text(out, "PerReplica:{");
  for (size_t i = 0; i < values.size(); ++i) {
    internal::print_index(out, i);
    internal::print_to(out, values[i]);
  }
  internal::print_text(out, "\n}");
  return out;
}

}  // namespace cohort
