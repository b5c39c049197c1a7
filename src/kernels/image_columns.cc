// Justified by "LeNet on 28x28, batch 128, step" of `bench_foundation`: the kernel library computes
// channels in blocks of 16, so that a convolution of 1 or 6 channels costs as much as one of 16.

#include "kernels/image_columns.h"

#include <dlfcn.h>

#include "base/machine.h"

namespace cohort::internal {
namespace {

// Lines are short, often shorter than it takes to call a function or to begin a long loop, so they
// are dealt with in pieces of one instruction.
template <typename T, int kBytes>
struct Piece {
  using Type [[gnu::vector_size(kBytes), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  static constexpr int64_t kSize = kBytes / sizeof(T);
};

// The last piece may overlap the one before.
template <int kBytes, typename T>
[[gnu::always_inline]] inline void copy_in_pieces(const LinePairs<T>& lines) {
  using Type = typename Piece<T, kBytes>::Type;
  constexpr int64_t kSize = Piece<T, kBytes>::kSize;
  const T* from = lines.from;
  T* to = lines.to;
  for (int64_t line = 0; line < lines.count; ++line) {
    const auto copy_piece = [&](int64_t i) {
      *reinterpret_cast<Type*>(to + i) = *reinterpret_cast<const Type*>(from + i);
    };
    for (int64_t i = 0; i + kSize <= lines.length; i += kSize) copy_piece(i);
    copy_piece(lines.length - kSize);
    from += lines.from_step;
    to += lines.to_step;
  }
}

template <typename T>
void copy_one_by_one(const LinePairs<T>& lines) {
  for (int64_t line = 0; line < lines.count; ++line) {
    const T* const from = lines.from + line * lines.from_step;
    T* const to = lines.to + line * lines.to_step;
    for (int64_t i = 0; i < lines.length; ++i) to[i] = from[i];
  }
}

// Adds the pieces of one size that the rest of a line is long enough for.
template <int kBytes, typename T>
[[gnu::always_inline]] inline void add_pieces(const T* from, int64_t length, T* to, int64_t& i) {
  using Type = typename Piece<T, kBytes>::Type;
  constexpr int64_t kSize = Piece<T, kBytes>::kSize;
  for (; i + kSize <= length; i += kSize) {
    *reinterpret_cast<Type*>(to + i) += *reinterpret_cast<const Type*>(from + i);
  }
}

template <typename T>
void add_lines(const LinePairs<T>& lines) {
  const T* from = lines.from;
  T* to = lines.to;
  for (int64_t line = 0; line < lines.count; ++line) {
    int64_t i = 0;
    add_pieces<16>(from, lines.length, to, i);
    for (; i < lines.length; ++i) to[i] += from[i];
    from += lines.from_step;
    to += lines.to_step;
  }
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2")]] void copy_with_avx2(const LinePairs<T>& lines) {
  copy_in_pieces<32>(lines);
}

#pragma GCC push_options
#pragma GCC target("avx2")
// Operations on wide vectors must be written where the target is known.
template <typename T>
void add_with_avx2(const LinePairs<T>& lines) {
  using Wide = typename Piece<T, 32>::Type;
  constexpr int64_t kSize = Piece<T, 32>::kSize;
  const T* from = lines.from;
  T* to = lines.to;
  for (int64_t line = 0; line < lines.count; ++line) {
    int64_t i = 0;
    for (; i + kSize <= lines.length; i += kSize) {
      *reinterpret_cast<Wide*>(to + i) += *reinterpret_cast<const Wide*>(from + i);
    }
    add_pieces<16>(from, lines.length, to, i);
    add_pieces<8>(from, lines.length, to, i);
    if (i < lines.length) to[i] += from[i];
    from += lines.from_step;
    to += lines.to_step;
  }
}
#pragma GCC pop_options
#endif

template <typename T>
void add_best(const LinePairs<T>& lines) {
#if defined(__x86_64__)
  if (has_avx2()) return add_with_avx2(lines);
#endif
  add_lines(lines);
}

// Calls use(row of the matrix, offset of the image's element that it begins with) for every row.
// Rows that see the same elements of the image come far apart: what has just been written is slow
// to read in another alignment.
template <typename Use>
void for_each_row(const ColumnLayout& layout, const Use& use) {
  const int64_t window = layout.size[0] * layout.size[1];
  const int64_t plane = layout.plane[0] * layout.plane[1];
  for (int64_t y = 0, place = 0; y < layout.size[0]; ++y) {
    for (int64_t x = 0; x < layout.size[1]; ++x, ++place) {
      const int64_t offset = y * layout.dilation[0] * layout.plane[1] + x * layout.dilation[1];
      for (int64_t channel = 0; channel < layout.channels; ++channel) {
        use(channel * window + place, channel * plane + offset);
      }
    }
  }
}

// A row of the matrix as lines, one for each row of the output, and their step in the image.
struct RowLines {
  RowLines(const ColumnLayout& layout, OutputRows rows)
      : count(rows.end - rows.begin),
        length(layout.output[1]),
        step(layout.stride[0] * layout.plane[1]) {}
  int64_t count;
  int64_t length;
  int64_t step;
};

}  // namespace

template <typename T>
void copy_lines(const LinePairs<T>& lines) {
  constexpr int64_t kSize = Piece<T, 16>::kSize;
#if defined(__x86_64__)
  if (lines.length >= 2 * kSize && has_avx2()) return copy_with_avx2(lines);
#endif
  lines.length >= kSize ? copy_in_pieces<16>(lines) : copy_one_by_one(lines);
}

template <typename T>
void write_columns(const ColumnLayout& layout, OutputRows rows, const T* image, T* matrix) {
  const RowLines lines(layout, rows);
  const int64_t stride = layout.stride[1];
  for_each_row(layout, [&](int64_t row, int64_t offset) {
    const T* from = image + offset + rows.begin * lines.step;
    T* to = matrix + row * lines.count * lines.length;
    if (stride == 1) {
      return copy_lines(
          LinePairs<T>{from, lines.step, to, lines.length, lines.count, lines.length});
    }
    for (int64_t i = 0; i < lines.count; ++i, from += lines.step, to += lines.length) {
      for (int64_t j = 0; j < lines.length; ++j) to[j] = from[j * stride];
    }
  });
}

template <typename T>
void add_columns(const ColumnLayout& layout, OutputRows rows, const T* matrix, T* image) {
  const RowLines lines(layout, rows);
  const int64_t stride = layout.stride[1];
  for_each_row(layout, [&](int64_t row, int64_t offset) {
    const T* from = matrix + row * lines.count * lines.length;
    T* to = image + offset + rows.begin * lines.step;
    if (stride == 1) {
      return add_best(LinePairs<T>{from, lines.length, to, lines.step, lines.count, lines.length});
    }
    for (int64_t i = 0; i < lines.count; ++i, from += lines.length, to += lines.step) {
      for (int64_t j = 0; j < lines.length; ++j) to[j * stride] += from[j];
    }
  });
}

template void copy_lines(const LinePairs<float>&);
template void copy_lines(const LinePairs<double>&);
template void write_columns(const ColumnLayout&, OutputRows, const float*, float*);
template void write_columns(const ColumnLayout&, OutputRows, const double*, double*);
template void add_columns(const ColumnLayout&, OutputRows, const float*, float*);
template void add_columns(const ColumnLayout&, OutputRows, const double*, double*);

namespace {

// What every BLAS calls its products; matrices lie column by column.
template <typename T>
using Gemm = void (*)(const char* trans_a, const char* trans_b, const int* m, const int* n,
                      const int* k, const T* alpha, const T* a, const int* lda, const T* b,
                      const int* ldb, const T* beta, T* c, const int* ldc);

// Found at run time: the kernel library may bring any BLAS, or hide the one it has.
struct Blas {
  Gemm<float> of_floats = reinterpret_cast<Gemm<float>>(dlsym(RTLD_DEFAULT, "sgemm_"));
  Gemm<double> of_doubles = reinterpret_cast<Gemm<double>>(dlsym(RTLD_DEFAULT, "dgemm_"));
};

const Blas& blas() {
  static const Blas found;
  return found;
}

// Row by row, out = a b; column by column the same memory says: transposed out = transposed b times
// transposed a.
template <typename T>
void call(Gemm<T> gemm, const MatrixProduct<T>& product) {
  const auto mark = [](bool transposed) { return transposed ? 'T' : 'N'; };
  const char first = mark(product.b.transposed);
  const char second = mark(product.a.transposed);
  const auto m = static_cast<int>(product.columns);
  const auto n = static_cast<int>(product.rows);
  const auto k = static_cast<int>(product.inner);
  const auto first_stride = static_cast<int>(product.b.stride);
  const auto second_stride = static_cast<int>(product.a.stride);
  const auto out_stride = static_cast<int>(product.out_stride);
  const T one = 1;
  const T kept = product.adds ? 1 : 0;
  gemm(&first, &second, &m, &n, &k, &one, product.b.data, &first_stride, product.a.data,
       &second_stride, &kept, product.out, &out_stride);
}

}  // namespace

bool can_multiply() { return blas().of_floats != nullptr && blas().of_doubles != nullptr; }

void multiply(const MatrixProduct<float>& product) { call(blas().of_floats, product); }
void multiply(const MatrixProduct<double>& product) { call(blas().of_doubles, product); }

}  // namespace cohort::internal
