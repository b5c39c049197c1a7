#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/dtype.h"
#include "cohort/shape.h"
#include "cohort/site.h"

namespace at {
class Tensor;
}

namespace cohort {

namespace internal {
struct TensorBody;
struct TensorAccess;
// What braces may hold: elements, and string literals, which are elements of type std::string.
template <typename T>
concept ListItem = TensorElement<T> || std::same_as<T, const char*> || std::same_as<T, char*>;

// The position in tensor[position], and the line that asks for it.
class Subscript {
 public:
  template <std::integral T>
  Subscript(T position, Site site = Site::here())
      : position_(static_cast<int64_t>(position)), site_(site) {}

  int64_t position() const { return position_; }
  Site site() const { return site_; }

 private:
  int64_t position_;
  Site site_;
};
}  // namespace internal

// An n-dimensional array of one dtype, or the promise of one: inside a graph being built a tensor
// is symbolic and has a dtype and a (perhaps partly unknown) shape but no values yet.
//
// A handle: copies share the same immutable value, so passing tensors by value costs nothing, and
// any number of threads may use one. What needs values throws FailedPrecondition on a symbolic
// tensor, and on a default-constructed one, which holds nothing.
class Tensor {
 public:
  Tensor() = default;

  // A scalar. In arithmetic a C++ number takes the dtype of the tensor it meets (float32 * 2.0 is
  // float32); a floating number that meets an integer tensor makes it float32.
  template <internal::ListItem T>
  Tensor(T value);

  // Nested braces: Tensor({{1.f, 2.f}, {3.f, 4.f}}) has shape (2, 2). All rows of one depth must be
  // equally long (InvalidArgument).
  template <internal::ListItem T>
  Tensor(std::initializer_list<T> values);
  template <internal::ListItem T>
  Tensor(std::initializer_list<std::initializer_list<T>> rows);
  template <internal::ListItem T>
  Tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes);
  template <internal::ListItem T>
  Tensor(
      std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>
          blocks);

  // Copies `values`, in row-major order. Their number must be the shape's (InvalidArgument).
  template <TensorElement T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  // Takes `values` over without a copy; without a shape the tensor is a vector.
  template <TensorElement T>
  static Tensor from(std::vector<T> values);
  template <TensorElement T>
  static Tensor from(std::vector<T> values, const Shape& shape);

  // Looks at memory that other code owns (a mapped file, shared memory), without a copy. The
  // memory must hold the whole tensor and stay as it is until `release` is called, which happens
  // once, after the last tensor that shares it is gone; never when this throws.
  static Tensor from_memory(const void* data, DType dtype, const Shape& shape,
                            std::function<void()> release);

  bool defined() const { return body_ != nullptr; }
  bool is_symbolic() const;
  DType dtype() const;
  Shape shape() const;
  int rank() const;
  // Number of elements.
  int64_t size() const;
  // Full name of the device that holds the value; what was asked for, in a graph.
  std::string device() const;

  // The name of a symbolic tensor in its graph: "layer/Split:1". Throws FailedPrecondition for a
  // tensor with a value, which has no name.
  std::string name() const;

  // The value of a tensor that has exactly one element, converted to T. Here and below: fractions
  // are cut off, what is not zero is true, and a number outside an integer type is InvalidArgument.
  template <TensorElement T>
  T to() const;
  explicit operator bool() const;
  // One element, converted to T. Negative indices count from the end; InvalidArgument beyond the
  // ends.
  template <TensorElement T>
  T at(std::initializer_list<int64_t> index) const;
  // All elements in row-major order, converted to T.
  template <TensorElement T>
  std::vector<T> to_vector() const;
  // All elements in place; T must be the dtype's own type (InvalidArgument). The span lives as long
  // as this tensor.
  template <TensorElement T>
  std::span<const T> data() const&;
  template <TensorElement T>
  std::span<const T> data() const&& = delete;

  // Part `index` of the first dimension, without a copy; negative counts from the end.
  Tensor operator[](internal::Subscript index) const;

  // As numpy prints: "Tensor([[1. 2.]\n [3. 4.]], shape=(2, 2), dtype=float32)". A symbolic tensor
  // has a name instead of values, Tensor("", shape=(None, 2), dtype=float32), and one that holds
  // nothing is Tensor(undefined).
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

  // LibTorch's tensor and back, sharing memory. Defined in <cohort/torch.h>.
  operator at::Tensor() const;
  template <std::same_as<at::Tensor> T>
  Tensor(const T& tensor);

 private:
  friend struct internal::TensorAccess;
  explicit Tensor(std::shared_ptr<const internal::TensorBody> body) : body_(std::move(body)) {}

  std::shared_ptr<const internal::TensorBody> body_;
};

// How many elements printing shows before it leaves out the middle, and how.
struct PrintOptions {
  int precision = 8;         // most digits after the point
  int64_t threshold = 1000;  // tensors with more elements are shortened with "..."
  int edge_items = 3;        // elements kept at each end of a shortened dimension
  int line_width = 75;
};
// The values alone, without shape and dtype: "[[1. 2.]\n [3. 4.]]". Strings are in single quotes,
// with escapes for everything but printable ASCII: "['a' 'b\n']". Throws InvalidArgument for
// options that are negative.
std::string format_values(const Tensor& tensor, const PrintOptions& options = {});

}  // namespace cohort

#include "cohort/internal/tensor_inl.h"  // IWYU pragma: export
