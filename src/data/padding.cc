#include "data/padding.h"

#include <algorithm>
#include <cstring>

#include "data/rows.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::data::internal {
namespace {

using cohort::internal::strings;

// The shape that all of `column` are padded to.
Shape padded_shape(std::string_view stage, std::span<const Tensor* const> column,
                   const Shape& wanted) {
  const int rank = column[0]->rank();
  if (wanted.has_rank() && wanted.rank() != rank) {
    raise(Code::InvalidArgument, "[{}] elements have shape {}, but are to be padded to {}", stage,
          column[0]->shape().to_string(), wanted.to_string());
  }
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 0);
  for (const Tensor* part : column) {
    if (part->rank() != rank || part->dtype() != column[0]->dtype()) {
      raise(Code::InvalidArgument,
            "[{}] elements of one batch differ in rank or dtype: {} {} and {} {}", stage,
            to_string(column[0]->dtype()), column[0]->shape().to_string(), to_string(part->dtype()),
            part->shape().to_string());
    }
    for (int axis = 0; axis < rank; ++axis) {
      int64_t& size = sizes[static_cast<size_t>(axis)];
      size = std::max(size, part->shape()[axis]);
      const bool fixed = wanted.has_rank() && wanted[axis] >= 0;
      if (fixed && part->shape()[axis] > wanted[axis]) {
        raise(Code::InvalidArgument, "[{}] an element of shape {} is larger than {}", stage,
              part->shape().to_string(), wanted.to_string());
      }
      if (fixed) size = wanted[axis];
    }
  }
  return Shape(sizes);
}

// Calls copy(source offset, target offset, count) for each innermost run of `from` inside of `to`.
template <typename Copy>
void for_each_run(const Shape& from, const Shape& to, const Copy& copy) {
  const int64_t elements = from.num_elements();
  if (elements == 0) return;
  const int64_t run = from.rank() == 0 ? 1 : from[-1];
  for (int64_t at = 0; at < elements; at += run) {
    int64_t rest = at;
    int64_t target = 0;
    int64_t stride = 1;
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      target += rest % from[axis] * stride;
      rest /= from[axis];
      stride *= to[axis];
    }
    copy(at, target, run);
  }
}

Tensor pad_strings(std::span<const Tensor* const> column, const Shape& shape, const Tensor* value) {
  const std::string fill = value == nullptr ? std::string() : value->to<std::string>();
  const int64_t width = shape.num_elements();
  std::vector<std::string> all(column.size() * static_cast<size_t>(width), fill);
  auto row = all.begin();
  for (const Tensor* part : column) {
    const auto& from = strings(*part);
    for_each_run(part->shape(), shape, [&](int64_t source, int64_t target, int64_t count) {
      std::copy_n(from.begin() + source, count, row + target);
    });
    row += width;
  }
  return Tensor::from(std::move(all), shape.with_inserted(0, static_cast<int64_t>(column.size())));
}

// Fills `bytes` with copies of one element.
void fill(std::span<std::byte> bytes, std::span<const std::byte> element) {
  if (std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; })) {
    if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
    return;
  }
  for (size_t at = 0; at < bytes.size(); at += element.size()) {
    std::memcpy(bytes.data() + at, element.data(), element.size());
  }
}

Tensor pad_column(std::string_view stage, std::span<const Tensor* const> column,
                  const Shape& wanted, const Tensor* value) {
  const Shape shape = padded_shape(stage, column, wanted);
  const DType dtype = column[0]->dtype();
  if (value != nullptr && value->dtype() != dtype) {
    raise(Code::InvalidArgument, "[{}] {} elements cannot be padded with a {} value", stage,
          to_string(dtype), to_string(value->dtype()));
  }
  if (dtype == kString) return pad_strings(column, shape, value);
  const int64_t width = shape.num_elements();
  const auto bytes = static_cast<size_t>(size_of(dtype));
  auto made = cohort::internal::allocate_tensor(
      dtype, shape.with_inserted(0, static_cast<int64_t>(column.size())));
  static constexpr std::byte kZero[16] = {};
  fill({made.data, column.size() * static_cast<size_t>(width) * bytes},
       value != nullptr ? raw_bytes(*value) : std::span<const std::byte>(kZero, bytes));
  std::byte* row = made.data;
  for (const Tensor* part : column) {
    const std::byte* from = raw_bytes(*part).data();
    for_each_run(part->shape(), shape, [&](int64_t source, int64_t target, int64_t count) {
      std::memcpy(row + static_cast<size_t>(target) * bytes,
                  from + static_cast<size_t>(source) * bytes, static_cast<size_t>(count) * bytes);
    });
    row += static_cast<size_t>(width) * bytes;
  }
  return made.tensor;
}

}  // namespace

void check_padding(std::string_view stage, const Padding& padding) {
  for (const Tensor& value : padding.values) {
    if (value.size() == 1 && (is_numeric(value.dtype()) || value.dtype() == kString)) continue;
    raise(Code::InvalidArgument, "[{}] a padding value must be one number or string, got shape {}",
          stage, value.shape().to_string());
  }
}

Element pad_elements(std::string_view stage, std::span<const Element> elements,
                     const Padding& padding) {
  const StructurePtr& structure = structure_of(elements[0]);
  for (const Element& element : elements) {
    check_same_structure(stage, *structure, *structure_of(element));
  }
  for (const auto& [count, what] : {std::pair(padding.shapes.size(), "shapes"),
                                    std::pair(padding.values.size(), "padding values")}) {
    if (count == 0 || count == structure->leaves) continue;
    raise(Code::InvalidArgument, "[{}] {} {} were given for elements of {} tensors", stage, count,
          what, structure->leaves);
  }
  std::vector<Tensor> padded;
  std::vector<const Tensor*> column(elements.size());
  for (size_t leaf = 0; leaf < structure->leaves; ++leaf) {
    for (size_t i = 0; i < elements.size(); ++i) column[i] = &tensors_of(elements[i])[leaf];
    padded.push_back(pad_column(stage, column,
                                padding.shapes.empty() ? Shape::unknown() : padding.shapes[leaf],
                                padding.values.empty() ? nullptr : &padding.values[leaf]));
  }
  return ElementAccess::make(structure, std::move(padded));
}

}  // namespace cohort::data::internal
