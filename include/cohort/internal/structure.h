#pragma once

// Splits structures of tensors into tensors and rebuilds them, for the arguments and results of
// traced functions. Not for inclusion by users.
//
// LeafTensors<T> describes how a leaf consists of tensors. collect() appends the tensors, replace()
// makes the same leaf with other tensors, and describe() appends what distinguishes leaves besides
// their tensors. A leaf without LeafTensors stays as it is.

#include <concepts>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/internal/access.h"
#include "cohort/internal/nest.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// KnownByHandle is a type that operations know by a handle, such as an iterator, but that has more
// members than the handle.
template <typename T>
concept KnownByHandle = requires(const T& value, const Tensor& handle) {
  { Access::handle(value) } -> std::convertible_to<Tensor>;
  { Access::with_handle(value, handle) } -> std::same_as<T>;
  { Access::kind(value) } -> std::convertible_to<std::string>;
};

// Flat holds the tensors of a structure, in order, and a description of everything else.
struct Flat {
  std::vector<Tensor> tensors = {};
  std::string kinds = {};  // of handles and of values that are not tensors
  size_t types = 0;        // distinguishes structures of different C++ types
};

// What the templates below do with lists, in functions that no program compiles again.
std::span<const Tensor> span_of(const std::vector<Tensor>& tensors);
void append(std::vector<Tensor>& all, const Tensor& tensor);
void append(std::vector<Gradient>& all, const Gradient& gradient);

template <typename T>
struct LeafTensors;

template <>
struct LeafTensors<Tensor> {
  static void collect(const Tensor& leaf, std::vector<Tensor>& flat);
  static void describe(const Tensor&, std::string&) {}
  static Tensor replace(const Tensor& like, std::span<const Tensor> flat, size_t& next);
};

template <>
struct LeafTensors<IndexedSlices> {
  static void collect(const IndexedSlices& leaf, std::vector<Tensor>& flat);
  static void describe(const IndexedSlices& leaf, std::string& text);
  static IndexedSlices replace(const IndexedSlices& like, std::span<const Tensor> flat,
                               size_t& next);
};

template <>
struct LeafTensors<Gradient> {
  static void collect(const Gradient& leaf, std::vector<Tensor>& flat);
  static void describe(const Gradient& leaf, std::string& text);
  static Gradient replace(const Gradient& like, std::span<const Tensor> flat, size_t& next);
};

template <KnownByHandle T>
struct LeafTensors<T> {
  static void collect(const T& leaf, std::vector<Tensor>& flat) {
    flat.push_back(Access::handle(leaf));
  }
  static void describe(const T& leaf, std::string& text) { text += Access::kind(leaf) + "; "; }
  static T replace(const T& like, std::span<const Tensor> flat, size_t& next) {
    return Access::with_handle(like, flat[next++]);
  }
};

template <typename T>
concept HoldsTensors = requires(const T& leaf, std::vector<Tensor>& flat) {
  LeafTensors<T>::collect(leaf, flat);
};

// Whether T is a struct whose tensors cannot be found.
template <typename T>
inline constexpr bool kLacksFields = std::is_class_v<T>&& std::is_aggregate_v<T> &&
                                     !std::is_empty_v<T> && !HoldsTensors<T> && !HasFields<T>;

// Appends the tensors in `value`, in order.
template <typename T>
void collect_tensors(const T& value, std::vector<Tensor>& flat) {
  visit_leaves(
      [&]<typename Leaf>(const Leaf& leaf) {
        static_assert(!kLacksFields<Leaf>,
                      "a struct among the arguments or results of a traced function needs a "
                      "specialisation of cohort::Fields that lists its fields");
        if constexpr (HoldsTensors<Leaf>) LeafTensors<Leaf>::collect(leaf, flat);
      },
      value);
}

// Returns a structure like `like` with the tensors from flat[next] on.
template <typename T>
T replace_tensors(const T& like, std::span<const Tensor> flat, size_t& next) {
  return map_leaves(
      [&]<typename Leaf>(const Leaf& leaf) -> Leaf {
        if constexpr (HoldsTensors<Leaf>) {
          return LeafTensors<Leaf>::replace(leaf, flat, next);
        } else {
          return leaf;
        }
      },
      like);
}

// Constants are leaves that are not tensors. They are described by bytes that distinguish them.
template <typename T>
concept Constant = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;
template <Constant T>
void describe_constant(const T& value, std::string& text) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void describe_constant(const std::string& value, std::string& text);
void describe_constant(const Variable& value, std::string& text);

// Appends the lengths and the keys of a structure.
template <typename T>
void describe_layout([[maybe_unused]] const T& value, [[maybe_unused]] std::string& text) {
  [[maybe_unused]] const auto parts = [&](const auto&... part) {
    (describe_layout(part, text), ...);
  };
  if constexpr (Nest<T>::kLeaf) {
    if constexpr (HasFields<T>) std::apply(parts, Fields<T>::of(const_cast<T&>(value)));
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (const auto& [key, part] : value) {
      describe_constant(key_text(key), text);
      describe_layout(part, text);
    }
    text += '}';
  } else if constexpr (requires { typename T::value_type; }) {
    text += std::to_string(value.size()) + ']';
    for (const auto& part : value) describe_layout(part, text);
  } else {
    std::apply(parts, value);
  }
}

// Appends everything that distinguishes structures besides their tensors.
template <typename T>
void describe_structure(const T& value, std::string& text) {
  describe_layout(value, text);
  visit_leaves(
      [&]<typename Leaf>(const Leaf& leaf) {
        if constexpr (HoldsTensors<Leaf>) {
          LeafTensors<Leaf>::describe(leaf, text);
        } else {
          static_assert(
              requires { describe_constant(leaf, text); },
              "a traced function takes tensors, gradients, distributed values, variables, numbers, "
              "strings and structures of them; a struct is a structure when it has a "
              "specialisation of cohort::Fields");
          describe_constant(leaf, text);
        }
      },
      value);
}

}  // namespace cohort::internal
