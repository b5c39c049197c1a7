#include "ops/image_columns.h"

namespace cohort::internal {
namespace {

// Lines are short, often shorter than it takes to call a function or to begin a long loop, so they
// are dealt with in pieces of one instruction.
template <typename T>
struct Piece {
  using Type [[gnu::vector_size(16), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  static constexpr int64_t kSize = 16 / sizeof(T);
  static Type& at(T* elements) { return *reinterpret_cast<Type*>(elements); }
  static const Type& at(const T* elements) { return *reinterpret_cast<const Type*>(elements); }
};

// The last piece may overlap the one before.
template <typename T>
[[gnu::always_inline]] inline void copy_line(const T* from, int64_t count, T* to) {
  constexpr int64_t kSize = Piece<T>::kSize;
  if (count < kSize) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kSize <= count; i += kSize) Piece<T>::at(to + i) = Piece<T>::at(from + i);
  Piece<T>::at(to + count - kSize) = Piece<T>::at(from + count - kSize);
}

template <typename T>
[[gnu::always_inline]] inline void add_line(const T* from, int64_t count, T* to) {
  constexpr int64_t kSize = Piece<T>::kSize;
  int64_t i = 0;
  for (; i + kSize <= count; i += kSize) Piece<T>::at(to + i) += Piece<T>::at(from + i);
  for (; i < count; ++i) to[i] += from[i];
}

// Calls use(line of the matrix, line of the image) for every row of the output in every row of the
// matrix: element j of the one goes with element j * stride of the other. Rows that see the same
// elements of the image come far apart: what has just been written is slow to read in another
// alignment.
template <typename Matrix, typename Image, typename Use>
[[gnu::always_inline]] inline void for_each_line(const ColumnLayout& layout, OutputRows rows,
                                                 Matrix* matrix, Image* image, const Use& use) {
  const int64_t width = layout.output[1];
  const int64_t step = layout.stride[0] * layout.plane[1];
  const int64_t count = rows.end - rows.begin;
  const int64_t window = layout.size[0] * layout.size[1];
  for (int64_t place = 0; place < window; ++place) {
    for (int64_t row = place; row < layout.rows(); row += window) {
      Matrix* entry = matrix + row * count * width;
      Image* line = image + layout.offset(row) + rows.begin * step;
      for (int64_t i = 0; i < count; ++i, entry += width, line += step) use(entry, line);
    }
  }
}

template <typename T>
void write(const ColumnLayout& layout, OutputRows rows, const T* image, T* matrix) {
  const int64_t width = layout.output[1];
  const int64_t stride = layout.stride[1];
  if (stride == 1) {
    for_each_line(layout, rows, matrix, image,
                  [=](T* to, const T* from) { copy_line(from, width, to); });
  } else {
    for_each_line(layout, rows, matrix, image, [=](T* to, const T* from) {
      for (int64_t j = 0; j < width; ++j) to[j] = from[j * stride];
    });
  }
}

template <typename T>
void add(const ColumnLayout& layout, OutputRows rows, const T* matrix, T* image) {
  const int64_t width = layout.output[1];
  const int64_t stride = layout.stride[1];
  if (stride == 1) {
    for_each_line(layout, rows, matrix, image,
                  [=](const T* from, T* to) { add_line(from, width, to); });
  } else {
    for_each_line(layout, rows, matrix, image, [=](const T* from, T* to) {
      for (int64_t j = 0; j < width; ++j) to[j * stride] += from[j];
    });
  }
}

}  // namespace

int64_t ColumnLayout::offset(int64_t row) const {
  const int64_t channel = row / (size[0] * size[1]);
  const int64_t y = row / size[1] % size[0] * dilation[0];
  const int64_t x = row % size[1] * dilation[1];
  return (channel * plane[0] + y) * plane[1] + x;
}

void write_columns(const ColumnLayout& layout, OutputRows rows, const float* image, float* matrix) {
  write(layout, rows, image, matrix);
}
void write_columns(const ColumnLayout& layout, OutputRows rows, const double* image,
                   double* matrix) {
  write(layout, rows, image, matrix);
}

void add_columns(const ColumnLayout& layout, OutputRows rows, const float* matrix, float* image) {
  add(layout, rows, matrix, image);
}
void add_columns(const ColumnLayout& layout, OutputRows rows, const double* matrix, double* image) {
  add(layout, rows, matrix, image);
}

}  // namespace cohort::internal
