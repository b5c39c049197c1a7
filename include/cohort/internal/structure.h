#pragma once

// Taking structures of tensors apart and putting them together again: what traced functions do with
// their arguments and results. Not for inclusion by users.

#include <concepts>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

template <typename T>
concept TensorConvertible = std::convertible_to<const T&, Tensor>;

// What operations know by a handle, and what tells more than the handle: an iterator.
template <typename T>
concept KnownByHandle = requires(const T& value, const Tensor& handle) {
  { value.handle() } -> std::convertible_to<Tensor>;
  { value.with_handle(handle) } -> std::same_as<T>;
  { value.kind() } -> std::convertible_to<std::string>;
};

// The tensors of a structure, in order.
struct Flat {
  std::vector<Tensor> tensors = {};
  std::string kinds = {};  // of those that are handles
};

// flatten_into(value, flat): appends the tensors in `value`, in order.
template <TensorConvertible T>
void flatten_into(const T& value, Flat& flat) {
  flat.tensors.push_back(static_cast<Tensor>(value));
}
template <KnownByHandle T>
void flatten_into(const T& value, Flat& flat) {
  flat.tensors.push_back(value.handle());
  flat.kinds += value.kind() + "; ";
}
template <typename T>
requires(!TensorConvertible<std::vector<T>>) void flatten_into(const std::vector<T>& values,
                                                               Flat& flat);
template <typename T>
void flatten_into(const std::map<std::string, T>& values, Flat& flat);
template <typename... T>
void flatten_into(const std::tuple<T...>& values, Flat& flat);
template <typename A, typename B>
void flatten_into(const std::pair<A, B>& values, Flat& flat);

template <typename T>
requires(!TensorConvertible<std::vector<T>>) void flatten_into(const std::vector<T>& values,
                                                               Flat& flat) {
  for (const T& value : values) flatten_into(value, flat);
}
template <typename T>
void flatten_into(const std::map<std::string, T>& values, Flat& flat) {
  for (const auto& [name, value] : values) flatten_into(value, flat);
}
template <typename... T>
void flatten_into(const std::tuple<T...>& values, Flat& flat) {
  std::apply([&](const T&... value) { (flatten_into(value, flat), ...); }, values);
}
template <typename A, typename B>
void flatten_into(const std::pair<A, B>& values, Flat& flat) {
  flatten_into(values.first, flat);
  flatten_into(values.second, flat);
}

// rebuild(like, flat, next): a structure like `like` with the tensors from flat[next] on.
template <typename T>
requires std::same_as<T, Tensor> Tensor rebuild(const T&, std::span<const Tensor> flat,
                                                size_t& next) {
  return flat[next++];
}
template <KnownByHandle T>
T rebuild(const T& like, std::span<const Tensor> flat, size_t& next) {
  return like.with_handle(flat[next++]);
}
template <typename T>
std::vector<T> rebuild(const std::vector<T>& like, std::span<const Tensor> flat, size_t& next) {
  std::vector<T> values;
  for (const T& value : like) values.push_back(rebuild(value, flat, next));
  return values;
}
template <typename T>
std::map<std::string, T> rebuild(const std::map<std::string, T>& like, std::span<const Tensor> flat,
                                 size_t& next) {
  std::map<std::string, T> values;
  for (const auto& [name, value] : like) values.emplace(name, rebuild(value, flat, next));
  return values;
}
template <typename... T>
std::tuple<T...> rebuild(const std::tuple<T...>& like, std::span<const Tensor> flat, size_t& next) {
  return std::apply(
      [&](const T&... value) { return std::tuple<T...>{rebuild(value, flat, next)...}; }, like);
}
template <typename A, typename B>
std::pair<A, B> rebuild(const std::pair<A, B>& like, std::span<const Tensor> flat, size_t& next) {
  A first = rebuild(like.first, flat, next);
  return {std::move(first), rebuild(like.second, flat, next)};
}

// unflatten<T>(flat, next): a T whose number of tensors its type tells, or, for one vector at the
// end, all the rest.
template <typename T>
struct Unflatten;
template <>
struct Unflatten<Tensor> {
  static Tensor from(std::span<const Tensor> flat, size_t& next) { return flat[next++]; }
};
template <>
struct Unflatten<std::vector<Tensor>> {
  static std::vector<Tensor> from(std::span<const Tensor> flat, size_t& next) {
    std::vector<Tensor> rest(flat.begin() + static_cast<std::ptrdiff_t>(next), flat.end());
    next = flat.size();
    return rest;
  }
};
template <typename... T>
struct Unflatten<std::tuple<T...>> {
  static std::tuple<T...> from(std::span<const Tensor> flat, size_t& next) {
    return std::tuple<T...>{Unflatten<T>::from(flat, next)...};
  }
};
template <typename A, typename B>
struct Unflatten<std::pair<A, B>> {
  static std::pair<A, B> from(std::span<const Tensor> flat, size_t& next) {
    A first = Unflatten<A>::from(flat, next);
    return {std::move(first), Unflatten<B>::from(flat, next)};
  }
};

template <typename T>
T unflatten(std::span<const Tensor> flat, size_t& next) {
  return Unflatten<T>::from(flat, next);
}

}  // namespace cohort::internal
