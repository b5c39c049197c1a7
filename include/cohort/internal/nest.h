#pragma once

// Walks over structures: vector, array, tuple, pair, map, and structs that list their fields. Not
// for inclusion by users, except for Fields.

#include <array>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cohort {

// Fields makes a struct of yours a structure, by listing its fields:
//
//   struct ImageBatch {
//     Tensor images;
//     Tensor labels;
//   };
//   template <>
//   struct cohort::Fields<ImageBatch> {
//     static auto of(auto& batch) { return std::tie(batch.images, batch.labels); }
//   };
template <typename T>
struct Fields;

namespace internal {

template <typename T>
concept HasFields = requires(T& value) {
  Fields<std::remove_cv_t<T>>::of(value);
};

// True for tuple, pair and array.
template <typename T>
inline constexpr bool kIsTuple = false;
template <typename... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <typename A, typename B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <typename T, size_t N>
inline constexpr bool kIsTuple<std::array<T, N>> = true;

// Throw InvalidArgument for structures that several replicas made.
[[noreturn]] void throw_lengths_differ(size_t replica, size_t length, size_t first_length);
[[noreturn]] void throw_keys_differ(size_t replica, const std::string& key);

// Return "[3]", and "{a, b}" before the descriptions of the parts.
std::string length_text(size_t length);
std::string keys_text(const std::string& keys, const std::string& parts);

// map_leaves(f, value) returns the same structure with f(leaf) in the place of every leaf. A struct
// whose fields can hold the results of f keeps its type. Otherwise the struct is a leaf.
template <typename F, typename T>
auto map_leaves(const F& f, const T& value);
// visit_leaves(f, value) calls f(leaf) for every leaf, including the fields of structs.
template <typename F, typename T>
void visit_leaves(const F& f, const T& value);
// zip_leaves(f, values) makes one structure of several structures of the same form. For every leaf
// it calls f with a span of pointers to the leaves in that place. A struct with fields is a leaf.
template <typename F, typename T>
auto zip_leaves(const F& f, std::span<const T* const> values);

// Returns the lengths and keys of a structure, as in "[2]" or "{a, b}", and "" for a leaf.
template <typename T>
std::string describe_structure(const T& value);

// Throws InvalidArgument, naming the replica, unless all structures have the same lengths and keys.
template <typename T>
void check_same_structure(std::span<const T* const> values);

template <typename F, typename T>
using MappedLeaves = decltype(map_leaves(std::declval<const F&>(), std::declval<const T&>()));
template <typename F, typename T>
using ZippedLeaves =
    decltype(zip_leaves(std::declval<const F&>(), std::declval<std::span<const T* const>>()));

// Returns pointers to one part of each of `wholes`.
template <typename Part, typename Whole, typename Get>
std::vector<const Part*> parts_of(std::span<const Whole* const> wholes, const Get& get) {
  std::vector<const Part*> parts;
  for (const Whole* whole : wholes) parts.push_back(&get(*whole));
  return parts;
}

// Nest has the operations on a type of structures. The general case is a leaf.
template <typename T>
struct Nest {
  static constexpr bool kLeaf = true;
};

template <typename T>
requires(!std::same_as<T, bool>) struct Nest<std::vector<T>> {
  static constexpr bool kLeaf = false;
  template <typename F>
  static auto map(const F& f, const std::vector<T>& values) {
    std::vector<MappedLeaves<F, T>> mapped;
    mapped.reserve(values.size());
    for (const T& value : values) mapped.push_back(map_leaves(f, value));
    return mapped;
  }
  template <typename F>
  static void visit(const F& f, const std::vector<T>& values) {
    for (const T& value : values) visit_leaves(f, value);
  }
  template <typename F>
  static auto zip(const F& f, std::span<const std::vector<T>* const> all) {
    check_lengths(all);
    std::vector<ZippedLeaves<F, T>> zipped;
    for (size_t i = 0; i < all.front()->size(); ++i) {
      const std::vector<const T*> parts = parts_at(all, i);
      zipped.push_back(zip_leaves(f, std::span<const T* const>(parts)));
    }
    return zipped;
  }
  static std::string describe(const std::vector<T>& values) {
    std::string text = length_text(values.size());
    for (const T& value : values) text += describe_structure(value);
    return text;
  }
  static void check(std::span<const std::vector<T>* const> all) {
    check_lengths(all);
    if constexpr (!Nest<T>::kLeaf) {
      for (size_t i = 0; i < all.front()->size(); ++i) {
        const std::vector<const T*> parts = parts_at(all, i);
        check_same_structure(std::span<const T* const>(parts));
      }
    }
  }

 private:
  static void check_lengths(std::span<const std::vector<T>* const> all) {
    const size_t length = all.front()->size();
    for (size_t r = 1; r < all.size(); ++r) {
      if (all[r]->size() != length) throw_lengths_differ(r, all[r]->size(), length);
    }
  }
  static std::vector<const T*> parts_at(std::span<const std::vector<T>* const> all, size_t index) {
    return parts_of<T>(all, [index](const auto& whole) -> const T& { return whole[index]; });
  }
};

// Returns a map's key for messages.
template <typename Key>
std::string key_text(const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string>) {
    return key;
  } else if constexpr (std::is_arithmetic_v<Key>) {
    return std::to_string(key);
  } else if constexpr (std::is_enum_v<Key>) {
    return std::to_string(static_cast<std::underlying_type_t<Key>>(key));
  } else {
    return "a key that cannot be printed";
  }
}

template <typename Key, typename T, typename Less>
struct Nest<std::map<Key, T, Less>> {
  using Whole = std::map<Key, T, Less>;
  static constexpr bool kLeaf = false;
  template <typename F>
  static auto map(const F& f, const Whole& values) {
    std::map<Key, MappedLeaves<F, T>, Less> mapped;
    for (const auto& [name, value] : values) mapped.emplace(name, map_leaves(f, value));
    return mapped;
  }
  template <typename F>
  static void visit(const F& f, const Whole& values) {
    for (const auto& [name, value] : values) visit_leaves(f, value);
  }
  template <typename F>
  static auto zip(const F& f, std::span<const Whole* const> all) {
    check_keys(all);
    std::map<Key, ZippedLeaves<F, T>, Less> zipped;
    for (const auto& [key, first] : *all.front()) {
      const std::vector<const T*> parts = parts_at(all, key);
      zipped.emplace(key, zip_leaves(f, std::span<const T* const>(parts)));
    }
    return zipped;
  }
  static std::string describe(const Whole& values) {
    std::string keys;
    std::string parts;
    for (const auto& [key, value] : values) {
      if (!keys.empty()) keys += ", ";
      keys += key_text(key);
      parts += describe_structure(value);
    }
    return keys_text(keys, parts);
  }
  static void check(std::span<const Whole* const> all) {
    check_keys(all);
    if constexpr (!Nest<T>::kLeaf) {
      for (const auto& [key, first] : *all.front()) {
        const std::vector<const T*> parts = parts_at(all, key);
        check_same_structure(std::span<const T* const>(parts));
      }
    }
  }

 private:
  static void check_keys(std::span<const Whole* const> all) {
    for (size_t r = 1; r < all.size(); ++r) {
      check_holds(*all[r], *all[0], r);
      check_holds(*all[0], *all[r], r);
    }
  }
  static void check_holds(const Whole& whole, const Whole& other, size_t replica) {
    for (const auto& [key, value] : other) {
      if (!whole.contains(key)) throw_keys_differ(replica, key_text(key));
    }
  }
  static std::vector<const T*> parts_at(std::span<const Whole* const> all, const Key& key) {
    return parts_of<T>(all, [&](const Whole& whole) -> const T& { return whole.at(key); });
  }
};

// TupleNest has what tuple, pair and array share: std::get and a length that is part of the type.
template <typename Whole>
struct TupleNest {
  static constexpr bool kLeaf = false;
  static constexpr auto kIndices = std::make_index_sequence<std::tuple_size_v<Whole>>();
  template <size_t I>
  using Part = std::tuple_element_t<I, Whole>;

  template <typename F>
  static void visit(const F& f, const Whole& values) {
    std::apply([&](const auto&... value) { (visit_leaves(f, value), ...); }, values);
  }
  static std::string describe(const Whole& values) {
    std::string text;
    std::apply([&](const auto&... value) { ((text += describe_structure(value)), ...); }, values);
    return text;
  }
  template <size_t I, typename F>
  static auto zip_part(const F& f, std::span<const Whole* const> all) {
    const std::vector<const Part<I>*> parts = parts_at<I>(all);
    return zip_leaves(f, std::span<const Part<I>* const>(parts));
  }
  static void check(std::span<const Whole* const> all) {
    [&]<size_t... I>(std::index_sequence<I...>) { (check_part<I>(all), ...); }
    (kIndices);
  }

 private:
  template <size_t I>
  static void check_part(std::span<const Whole* const> all) {
    if constexpr (!Nest<Part<I>>::kLeaf) {
      const std::vector<const Part<I>*> parts = parts_at<I>(all);
      check_same_structure(std::span<const Part<I>* const>(parts));
    }
  }
  template <size_t I>
  static std::vector<const Part<I>*> parts_at(std::span<const Whole* const> all) {
    return parts_of<Part<I>>(
        all, [](const Whole& whole) -> const Part<I>& { return std::get<I>(whole); });
  }
};

template <typename... T>
struct Nest<std::tuple<T...>> : TupleNest<std::tuple<T...>> {
  using Base = TupleNest<std::tuple<T...>>;
  // Braces evaluate from left to right.
  template <typename F>
  static auto map(const F& f, const std::tuple<T...>& values) {
    return std::apply(
        [&](const T&... value) {
          return std::tuple<MappedLeaves<F, T>...>{map_leaves(f, value)...};
        },
        values);
  }
  template <typename F>
  static auto zip(const F& f, std::span<const std::tuple<T...>* const> all) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<ZippedLeaves<F, T>...>{Base::template zip_part<I>(f, all)...};
    }
    (Base::kIndices);
  }
};

template <typename A, typename B>
struct Nest<std::pair<A, B>> : TupleNest<std::pair<A, B>> {
  using Base = TupleNest<std::pair<A, B>>;
  template <typename F>
  static auto map(const F& f, const std::pair<A, B>& values) {
    return std::pair<MappedLeaves<F, A>, MappedLeaves<F, B>>{map_leaves(f, values.first),
                                                             map_leaves(f, values.second)};
  }
  template <typename F>
  static auto zip(const F& f, std::span<const std::pair<A, B>* const> all) {
    return std::pair<ZippedLeaves<F, A>, ZippedLeaves<F, B>>{Base::template zip_part<0>(f, all),
                                                             Base::template zip_part<1>(f, all)};
  }
};

template <typename T, size_t N>
struct Nest<std::array<T, N>> : TupleNest<std::array<T, N>> {
  using Base = TupleNest<std::array<T, N>>;
  template <typename F>
  static auto map(const F& f, const std::array<T, N>& values) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::array<MappedLeaves<F, T>, N>{map_leaves(f, values[I])...};
    }
    (Base::kIndices);
  }
  template <typename F>
  static auto zip(const F& f, std::span<const std::array<T, N>* const> all) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::array<ZippedLeaves<F, T>, N>{Base::template zip_part<I>(f, all)...};
    }
    (Base::kIndices);
  }
};

// Whether the results of `F` on the fields of a struct fit into these fields.
template <typename F, typename Tuple>
inline constexpr bool kFieldsTake = false;
template <typename F, typename... Field>
inline constexpr bool kFieldsTake<F, std::tuple<Field&...>> =
    (std::is_assignable_v<Field&, MappedLeaves<F, std::remove_cv_t<Field>>> && ...);

template <typename F, typename T>
auto map_leaves(const F& f, const T& value) {
  if constexpr (!Nest<T>::kLeaf) {
    return Nest<T>::map(f, value);
  } else if constexpr (HasFields<T>) {
    if constexpr (kFieldsTake<F, decltype(Fields<T>::of(std::declval<T&>()))>) {
      T mapped = value;
      std::apply([&](auto&... field) { ((field = map_leaves(f, std::as_const(field))), ...); },
                 Fields<T>::of(mapped));
      return mapped;
    } else {
      return f(value);
    }
  } else {
    return f(value);
  }
}

template <typename F, typename T>
void visit_leaves(const F& f, const T& value) {
  if constexpr (!Nest<T>::kLeaf) {
    Nest<T>::visit(f, value);
  } else if constexpr (HasFields<T>) {
    std::apply([&](const auto&... field) { (visit_leaves(f, field), ...); },
               Fields<T>::of(const_cast<T&>(value)));
  } else {
    f(value);
  }
}

template <typename F, typename T>
auto zip_leaves(const F& f, std::span<const T* const> values) {
  if constexpr (!Nest<T>::kLeaf) {
    return Nest<T>::zip(f, values);
  } else {
    return f(values);
  }
}

template <typename T>
void check_same_structure(std::span<const T* const> values) {
  if constexpr (!Nest<T>::kLeaf) Nest<T>::check(values);
}

template <typename T>
std::string describe_structure(const T& value) {
  if constexpr (!Nest<T>::kLeaf) {
    return Nest<T>::describe(value);
  } else if constexpr (HasFields<T>) {
    std::string text;
    std::apply([&](const auto&... field) { ((text += describe_structure(field)), ...); },
               Fields<T>::of(const_cast<T&>(value)));
    return text;
  } else {
    return "";
  }
}

}  // namespace internal
}  // namespace cohort
