#pragma once

// Takes structures of tensors apart and puts them together again, for the arguments and results of
// traced functions. Not for inclusion by users.
//
// LeafTensors<T> says how a leaf is made of tensors: collect() appends the tensors, replace() makes
// a leaf like another with other tensors, and describe() appends what else tells leaves apart. A
// leaf without LeafTensors is kept as it is.

#include <concepts>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/internal/nest.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// What operations know by a handle but has more to it than the handle: an iterator.
template <typename T>
concept KnownByHandle = requires(const T& value, const Tensor& handle) {
  { value.handle() } -> std::convertible_to<Tensor>;
  { value.with_handle(handle) } -> std::same_as<T>;
  { value.kind() } -> std::convertible_to<std::string>;
};

// The tensors of a structure, in order, and what else there is.
struct Flat {
  std::vector<Tensor> tensors = {};
  std::string kinds = {};  // of handles, and the values that are not tensors
  size_t types = 0;        // tells structures of other C++ types apart
};

template <typename T>
struct LeafTensors;

template <>
struct LeafTensors<Tensor> {
  static void collect(const Tensor& leaf, std::vector<Tensor>& flat) { flat.push_back(leaf); }
  static void describe(const Tensor&, std::string&) {}
  static Tensor replace(const Tensor&, std::span<const Tensor> flat, size_t& next) {
    return flat[next++];
  }
};

template <>
struct LeafTensors<IndexedSlices> {
  static void collect(const IndexedSlices& leaf, std::vector<Tensor>& flat) {
    flat.push_back(leaf.values);
    flat.push_back(leaf.indices);
  }
  static void describe(const IndexedSlices& leaf, std::string& text) {
    text += leaf.dense_shape.to_string();
  }
  static IndexedSlices replace(const IndexedSlices& like, std::span<const Tensor> flat,
                               size_t& next) {
    next += 2;
    return {flat[next - 2], flat[next - 1], like.dense_shape};
  }
};

template <>
struct LeafTensors<Gradient> {
  static void collect(const Gradient& leaf, std::vector<Tensor>& flat) {
    if (leaf.is_sparse()) {
      LeafTensors<IndexedSlices>::collect(leaf.slices(), flat);
    } else if (leaf.defined()) {
      flat.push_back(leaf.dense());
    }
  }
  static void describe(const Gradient& leaf, std::string& text) {
    text += leaf.is_sparse() ? 's' : leaf.defined() ? 'd' : 'u';
    if (leaf.is_sparse()) LeafTensors<IndexedSlices>::describe(leaf.slices(), text);
  }
  static Gradient replace(const Gradient& like, std::span<const Tensor> flat, size_t& next) {
    if (like.is_sparse()) return LeafTensors<IndexedSlices>::replace(like.slices(), flat, next);
    return like.defined() ? Gradient(flat[next++]) : Gradient();
  }
};

template <KnownByHandle T>
struct LeafTensors<T> {
  static void collect(const T& leaf, std::vector<Tensor>& flat) { flat.push_back(leaf.handle()); }
  static void describe(const T& leaf, std::string& text) { text += leaf.kind() + "; "; }
  static T replace(const T& like, std::span<const Tensor> flat, size_t& next) {
    return like.with_handle(flat[next++]);
  }
};

template <typename T>
concept HoldsTensors = requires(const T& leaf, std::vector<Tensor>& flat) {
  LeafTensors<T>::collect(leaf, flat);
};

// A struct whose tensors nothing finds.
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

// A structure like `like` with the tensors from flat[next] on.
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

// Leaves that are not tensors, as bytes that tell different ones apart.
template <typename T>
concept Constant = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;
template <Constant T>
void describe_constant(const T& value, std::string& text) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void describe_constant(const std::string& value, std::string& text) {
  text += std::to_string(value.size()) + ":" + value;
}
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

// Appends all that tells structures apart besides their tensors.
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
