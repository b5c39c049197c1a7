#include "data/batch_rows.h"

#include <cstring>

#include "cohort/internal/tensor_inl.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::data::internal {

using cohort::internal::allocate_tensor;
using cohort::internal::is_small;
using cohort::internal::make_small;
using cohort::internal::strings;
using cohort::internal::WritableTensor;

namespace {

void check_numeric_or_string(std::string_view stage, const Tensor& tensor) {
  if (is_numeric(tensor.dtype()) || tensor.dtype() == kString) return;
  raise(Code::InvalidArgument, "[{}] {} tensors cannot be elements of a batch", stage,
        to_string(tensor.dtype()));
}

void check_alike(std::string_view stage, const Tensor& first, const Tensor& other, size_t number) {
  if (first.dtype() != other.dtype()) {
    raise(Code::InvalidArgument,
          "[{}] elements of one batch differ in dtype: element 0 is {}, element {} is {}", stage,
          to_string(first.dtype()), number, to_string(other.dtype()));
  }
  if (first.shape() == other.shape()) return;
  raise(Code::InvalidArgument,
        "[{}] elements of one batch differ in shape: element 0 has {}, element {} has {}; "
        "padded_batch() makes them equal",
        stage, first.shape().to_string(), number, other.shape().to_string());
}

[[noreturn]] void raise_scalar(std::string_view stage) {
  raise(Code::InvalidArgument,
        "[{}] needs batches, but a part of the element is a scalar; call batch() first", stage);
}

// The tensors in one place of many elements.
using Column = std::span<const Tensor* const>;

// Returns the elements of all tensors, one tensor after the other.
Tensor concatenated(Column column, const Shape& shape) {
  const DType dtype = column[0]->dtype();
  if (dtype == kString) {
    std::vector<std::string> values;
    for (const Tensor* part : column) {
      values.insert(values.end(), strings(*part).begin(), strings(*part).end());
    }
    return Tensor::from(std::move(values), shape);
  }
  WritableTensor made = allocate_tensor(dtype, shape);
  std::byte* out = made.data;
  for (const Tensor* part : column) {
    const auto bytes = raw_bytes(*part);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  }
  return made.tensor;
}

Tensor stack_tensors(std::string_view stage, Column column) {
  const Tensor& first = *column[0];
  check_numeric_or_string(stage, first);
  if (first.rank() >= Shape::kMaxRank) {
    raise(Code::InvalidArgument,
          "[{}] a batch of elements of shape {} would have {} dimensions, but a tensor has at most "
          "{}",
          stage, first.shape().to_string(), first.rank() + 1, Shape::kMaxRank);
  }
  for (size_t i = 1; i < column.size(); ++i) check_alike(stage, first, *column[i], i);
  return concatenated(column, first.shape().with_inserted(0, static_cast<int64_t>(column.size())));
}

Tensor join_tensors(std::string_view stage, Column column) {
  const Tensor& first = *column[0];
  check_numeric_or_string(stage, first);
  int64_t rows = 0;
  for (size_t i = 0; i < column.size(); ++i) {
    const Tensor& part = *column[i];
    if (part.dtype() != first.dtype() || !(part.shape().with(0, 0) == first.shape().with(0, 0))) {
      check_alike(stage, first, part, i);
    }
    rows += part.shape()[0];
  }
  return concatenated(column, first.shape().with(0, rows));
}

}  // namespace

std::span<const std::byte> raw_bytes(const Tensor& tensor) {
  const void* data = cohort::internal::element_data(tensor, tensor.dtype());
  return {static_cast<const std::byte*>(data),
          static_cast<size_t>(tensor.size() * size_of(tensor.dtype()))};
}

int64_t row_elements(const Shape& shape) {
  int64_t product = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) product *= shape[axis];
  return product;
}

Element in_row_order(const Element& batch) {
  return with_each_tensor(batch, [](const Tensor& tensor) {
    if (!is_numeric(tensor.dtype()) || is_small(tensor.dtype(), tensor.size())) return tensor;
    const Tensor ordered = cohort::internal::view_elements(tensor, 0, tensor.shape());
    return cohort::internal::same_memory(ordered, tensor) ? tensor : ordered;
  });
}

Tensor row_of(const Tensor& tensor, int64_t index) {
  const Shape shape = tensor.shape().without(0);
  const int64_t width = shape.num_elements();
  if (is_small(tensor.dtype(), width)) {
    WritableTensor row = make_small(tensor.dtype(), shape);
    const auto bytes = static_cast<size_t>(width * size_of(tensor.dtype()));
    if (bytes > 0) {
      std::memcpy(row.data, raw_bytes(tensor).data() + static_cast<size_t>(index) * bytes, bytes);
    }
    return std::move(row.tensor);
  }
  if (tensor.dtype() != kString) {
    return cohort::internal::view_elements(tensor, index * width, shape);
  }
  const auto first = strings(tensor).begin() + index * width;
  return Tensor::from(std::vector<std::string>(first, first + width), shape);
}

Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end) {
  const Shape whole = tensor.shape();
  if (begin == 0 && end == whole[0]) return tensor;
  const Shape shape = whole.with(0, end - begin);
  const int64_t width = row_elements(whole);
  if (tensor.dtype() != kString) {
    return cohort::internal::view_elements(tensor, begin * width, shape);
  }
  const auto& values = strings(tensor);
  return Tensor::from(
      std::vector<std::string>(values.begin() + begin * width, values.begin() + end * width),
      shape);
}

Tensor gather_rows(const Tensor& tensor, std::span<const int64_t> rows) {
  const Shape shape = tensor.shape().with(0, static_cast<int64_t>(rows.size()));
  const int64_t width = row_elements(shape);
  if (tensor.dtype() == kString) {
    std::vector<std::string> values;
    values.reserve(rows.size() * static_cast<size_t>(width));
    for (const int64_t row : rows) {
      const auto first = strings(tensor).begin() + row * width;
      values.insert(values.end(), first, first + width);
    }
    return Tensor::from(std::move(values), shape);
  }
  WritableTensor made = allocate_tensor(tensor.dtype(), shape);
  const auto bytes = static_cast<size_t>(width * size_of(tensor.dtype()));
  const std::byte* source = raw_bytes(tensor).data();
  std::byte* out = made.data;
  for (const int64_t row : rows) {
    if (bytes > 0) std::memcpy(out, source + static_cast<size_t>(row) * bytes, bytes);
    out += bytes;
  }
  return made.tensor;
}

Element stack_elements(std::string_view stage, std::span<const Element> elements) {
  if (holds_sequences(*structure_of(elements[0]))) {
    raise(Code::InvalidArgument,
          "[{}] elements that are datasets cannot be stacked; flat_map() makes elements of them",
          stage);
  }
  return combine_columns(stage, elements,
                         [&](Column column, size_t) { return stack_tensors(stage, column); });
}

Element join_batches(std::string_view stage, std::span<const Element> batches) {
  if (batches.size() == 1) return batches[0];
  return combine_columns(stage, batches,
                         [&](Column column, size_t) { return join_tensors(stage, column); });
}

void check_has_rows(std::string_view stage, const std::optional<ElementSpec>& batches) {
  if (!batches) return;
  for (const TensorSpec& tensor : batches->tensors()) {
    if (tensor.shape.has_rank() && tensor.shape.rank() == 0) raise_scalar(stage);
  }
}

int64_t batch_rows(std::string_view stage, const Element& batch) {
  const auto& tensors = tensors_of(batch);
  if (tensors.empty()) {
    raise(Code::InvalidArgument, "[{}] the element has no tensors, so it is not a batch", stage);
  }
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() == 0) raise_scalar(stage);
    if (tensor.shape()[0] != tensors[0].shape()[0]) {
      raise(Code::InvalidArgument,
            "[{}] the parts of a batch have different first dimensions: shapes {} and {}", stage,
            tensors[0].shape().to_string(), tensor.shape().to_string());
    }
  }
  return tensors[0].shape()[0];
}

Element batch_row(const Element& batch, int64_t index) {
  return with_each_tensor(batch, [&](const Tensor& tensor) { return row_of(tensor, index); });
}

Element batch_slice(const Element& batch, int64_t begin, int64_t end) {
  return with_each_tensor(batch, [&](const Tensor& tensor) { return rows_of(tensor, begin, end); });
}

}  // namespace cohort::data::internal
