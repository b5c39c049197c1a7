#pragma once

#include <cstddef>
#include <functional>

#include "cohort/dtype.h"
#include "cohort/error.h"
#include "cohort/internal/forward.h"
#include "cohort/internal/tensor_parts.h"
#include "cohort/shape.h"

namespace at {
class Tensor;
}

namespace cohort {

// Tensor is an n-dimensional array of elements of one dtype. While a graph is being built, a tensor
// is symbolic: it has a dtype and a shape (whose sizes may be unknown) but no values yet.
//
//   Tensor a({{1.f, 2.f}, {3.f, 4.f}});
//   Tensor b = matmul(a, a) + 1.f;
//   float first = b.at<float>({0, 0});
//   std::vector<float> all = b.to_vector<float>();
//
// A Tensor is a handle: copies share one immutable value. Passing tensors by value therefore costs
// nothing, and any number of threads may use the same tensor. A default-constructed tensor holds
// nothing. Functions that need values throw FailedPrecondition if a tensor has none.
class Tensor {
 public:
  Tensor() = default;

  // A scalar. In arithmetic, a C++ number takes the dtype of the tensor that it is combined with
  // (float32 * 2.0 is float32). A floating number combined with an integer tensor gives float32.
  template <internal::ListItem T>
  Tensor(T value);

  // Nested braces: Tensor({{1.f, 2.f}, {3.f, 4.f}}) has shape (2, 2). Throws InvalidArgument unless
  // all lists of one depth are equally long.
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

  // Copies `values`, in row-major order. Throws InvalidArgument if their number does not fit.
  template <TensorElement T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  // Takes over the memory of `values`; only bools are copied. The default shape is that of a
  // vector.
  template <TensorElement T>
  static Tensor from(std::vector<T> values);
  template <TensorElement T>
  static Tensor from(std::vector<T> values, const Shape& shape);

  // Makes a tensor of memory that other code owns (a mapped file, shared memory), without a copy.
  // The memory must hold the whole tensor and stay as it is until `release` is called. `release` is
  // called once, after the last tensor that shares the memory is gone. If from_memory() throws,
  // `release` is never called. In a device scope of a GPU the tensor is a copy on the GPU.
  static Tensor from_memory(const void* data, DType dtype, const Shape& shape,
                            std::function<void()> release);

  bool defined() const { return body_ != nullptr; }
  bool is_symbolic() const;
  DType dtype() const;
  Shape shape() const;
  int rank() const;
  // The number of elements.
  int64_t size() const;
  // The full name of the device that holds the value; in a graph, the device that was requested.
  std::string device() const;

  // The name of a symbolic tensor in its graph: "layer/Split:1". Throws FailedPrecondition if the
  // tensor has a value, because values have no name.
  std::string name() const;

  // Returns the value of a tensor with exactly one element, converted to T. Conversions, here and
  // below, cut off fractions and turn every number but zero into true. They throw InvalidArgument
  // if a number is outside the range of an integer type.
  template <TensorElement T>
  T to() const;
  explicit operator bool() const;
  // Returns one element, converted to T. Negative indices count from the end. Throws
  // InvalidArgument if an index is beyond the ends.
  template <TensorElement T>
  T at(std::initializer_list<int64_t> index) const;
  // Returns all elements in row-major order, converted to T.
  template <TensorElement T>
  std::vector<T> to_vector() const;
  // Returns all elements in row-major order: in place, or a copy that the tensor keeps if they are
  // not contiguous. Throws InvalidArgument unless T is the type of the dtype. The span is valid
  // while this tensor exists.
  template <TensorElement T>
  std::span<const T> data() const&;
  template <TensorElement T>
  std::span<const T> data() const&& = delete;

  // Returns part `index` of the first dimension without a copy. Negative indices count from the
  // end.
  Tensor operator[](internal::Subscript index) const;

  // Prints as numpy does: "Tensor([[1. 2.]\n [3. 4.]], shape=(2, 2), dtype=float32)". A symbolic
  // tensor shows its name instead of values, Tensor("", shape=(None, 2), dtype=float32), and a
  // tensor that holds nothing is Tensor(undefined).
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

  // Convert to a LibTorch tensor and back; both tensors share memory. Defined in <cohort/torch.h>.
  operator at::Tensor() const;
  template <std::same_as<at::Tensor> T>
  Tensor(const T& tensor);

 private:
  friend struct internal::TensorAccess;
  explicit Tensor(std::shared_ptr<const internal::TensorBody> body) : body_(std::move(body)) {}

  std::shared_ptr<const internal::TensorBody> body_;
};

// TensorSpec is the dtype and shape of a tensor that does not exist yet. Sizes of the shape may be
// unknown. Functions, datasets, queues and placeholders describe their tensors by it.
//
//   Tensor x = placeholder(TensorSpec{kFloat32, {-1, 28}});
struct TensorSpec {
  DType dtype = kFloat32;
  Shape shape = Shape::unknown();

  // Describes a tensor that exists.
  static TensorSpec of(const Tensor& tensor) { return {tensor.dtype(), tensor.shape()}; }
  // Whether one tensor may fit both: an unknown size fits any other.
  bool is_compatible_with(const TensorSpec& other) const;
  std::string to_string() const;  // "float32 (None, 28)"
  friend std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// PrintOptions sets how format_values() prints, and when it leaves out the middle of a tensor.
struct PrintOptions {
  int precision = 8;         // maximal number of digits after the point
  int64_t threshold = 1000;  // tensors with more elements are shortened with "..."
  int edge_items = 3;        // elements kept at each end of a shortened dimension
  int line_width = 75;       // characters
};
// Returns the values of a tensor without shape and dtype: "[[1. 2.]\n [3. 4.]]". Strings are in
// single quotes, and characters other than printable ASCII are escaped: "['a' 'b\n']". Throws
// InvalidArgument if precision or threshold is below 0, or edge_items or line_width below 1.
std::string format_values(const Tensor& tensor, const PrintOptions& options = {});

}  // namespace cohort

#include "cohort/internal/tensor_inl.h"  // IWYU pragma: export
