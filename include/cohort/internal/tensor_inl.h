#pragma once

// Defines Tensor's templates. Users include cohort/tensor.h instead.

#include <type_traits>

#include "cohort/tensor.h"

namespace cohort {
namespace internal {

Tensor make_scalar(DType dtype, const void* value);
Tensor make_strings(std::vector<std::string> values, const Shape& shape);
// Copies shape.num_elements() elements from `data`.
Tensor copy_elements(DType dtype, const Shape& shape, const void* data);
// Throws InvalidArgument unless `count` elements make up `shape`.
void check_element_count(int64_t count, const Shape& shape);
// Throws InvalidArgument for a null pointer.
std::string to_text(const char* text);
[[noreturn]] void raise_ragged(const Shape& first, const Shape& other);

// Writes element `offset` (row-major), converted to `dtype`, to `out`.
void read_element(const Tensor& tensor, int64_t offset, DType dtype, void* out);
void read_elements(const Tensor& tensor, DType dtype, void* out);
// Returns the row-major offset of `index`. Throws InvalidArgument if an index is beyond the ends.
int64_t offset_of(const Tensor& tensor, std::span<const int64_t> index);
// Returns the number of elements. Throws FailedPrecondition if the tensor has no values.
int64_t count_values(const Tensor& tensor);
// Throws InvalidArgument unless there is exactly one element.
void check_one_element(const Tensor& tensor);
// Returns the first element of `tensor`; the others follow it in row-major order. Throws
// InvalidArgument if the tensor has another dtype.
const void* element_data(const Tensor& tensor, DType dtype);

template <ListItem T>
auto to_element(T value) {
  if constexpr (TensorElement<T>) {
    return value;
  } else {
    return to_text(value);
  }
}
template <ListItem T>
using ElementOf = decltype(to_element(std::declval<T>()));

// Append the elements of nested braces to `values`, in row-major order, and return their shape.
template <ListItem T>
Shape append_values(const T& item, std::vector<ElementOf<T>>& values) {
  values.push_back(to_element(item));
  return {};
}

template <typename Item, typename Element>
Shape append_values(std::initializer_list<Item> list, std::vector<Element>& values) {
  Shape part;
  for (const Item& item : list) {
    const Shape shape = append_values(item, values);
    if (&item == list.begin()) part = shape;
    if (!(shape == part)) raise_ragged(part, shape);
  }
  return part.with_inserted(0, static_cast<int64_t>(list.size()));
}

template <TensorElement T>
Tensor make_tensor(std::vector<T> values, const Shape& shape) {
  if constexpr (std::same_as<T, std::string>) {
    return make_strings(std::move(values), shape);
  } else if constexpr (std::same_as<T, bool>) {
    const std::string bytes(values.begin(), values.end());
    return copy_elements(kBool, shape, bytes.data());
  } else {
    return copy_elements(dtype_of<T>, shape, values.data());
  }
}

template <ListItem T, typename Item>
Tensor make_tensor(std::initializer_list<Item> list) {
  std::vector<ElementOf<T>> values;
  const Shape shape = append_values(list, values);
  return make_tensor(std::move(values), shape);
}

}  // namespace internal

template <internal::ListItem T>
Tensor::Tensor(T value) {
  if constexpr (std::same_as<internal::ElementOf<T>, std::string>) {
    *this = internal::make_strings({internal::to_element(std::move(value))}, Shape{});
  } else {
    *this = internal::make_scalar(dtype_of<T>, &value);
  }
}

template <internal::ListItem T>
Tensor::Tensor(std::initializer_list<T> values) : Tensor(internal::make_tensor<T>(values)) {}

template <internal::ListItem T>
Tensor::Tensor(std::initializer_list<std::initializer_list<T>> rows)
    : Tensor(internal::make_tensor<T>(rows)) {}

template <internal::ListItem T>
Tensor::Tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes)
    : Tensor(internal::make_tensor<T>(planes)) {}

template <internal::ListItem T>
Tensor::Tensor(
    std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>
        blocks)
    : Tensor(internal::make_tensor<T>(blocks)) {}

template <TensorElement T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  internal::check_element_count(static_cast<int64_t>(values.size()), shape);
  if constexpr (std::same_as<T, std::string>) {
    return internal::make_strings({values.begin(), values.end()}, shape);
  } else {
    return internal::copy_elements(dtype_of<T>, shape, values.data());
  }
}

template <TensorElement T>
Tensor Tensor::from(std::vector<T> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return from(std::move(values), shape);
}

template <TensorElement T>
Tensor Tensor::from(std::vector<T> values, const Shape& shape) {
  internal::check_element_count(static_cast<int64_t>(values.size()), shape);
  if constexpr (std::same_as<T, std::string> || std::same_as<T, bool>) {
    return internal::make_tensor(std::move(values), shape);
  } else {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    return from_memory(owner->data(), dtype_of<T>, shape, [owner]() mutable { owner.reset(); });
  }
}

template <TensorElement T>
T Tensor::to() const {
  internal::check_one_element(*this);
  T value;
  internal::read_element(*this, 0, dtype_of<T>, &value);
  return value;
}

template <TensorElement T>
T Tensor::at(std::initializer_list<int64_t> index) const {
  T value;
  internal::read_element(
      *this, internal::offset_of(*this, std::span<const int64_t>(index.begin(), index.size())),
      dtype_of<T>, &value);
  return value;
}

template <TensorElement T>
std::vector<T> Tensor::to_vector() const {
  const auto count = static_cast<size_t>(internal::count_values(*this));
  if constexpr (std::same_as<T, bool>) {
    std::string bytes(count, 0);
    internal::read_elements(*this, kBool, bytes.data());
    return std::vector<T>(bytes.begin(), bytes.end());
  } else {
    std::vector<T> values(count);
    internal::read_elements(*this, dtype_of<T>, values.data());
    return values;
  }
}

template <TensorElement T>
std::span<const T> Tensor::data() const& {
  return {static_cast<const T*>(internal::element_data(*this, dtype_of<T>)),
          static_cast<size_t>(size())};
}

}  // namespace cohort
