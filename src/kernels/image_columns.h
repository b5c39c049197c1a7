#pragma once

#include <array>
#include <cstdint>

// The windows of a convolution on one image, laid out as a matrix: a column for each element of the
// output, row by row, and in it what the window there covers, channel by channel. Then the
// convolution is a product of matrices.
namespace cohort::internal {

struct ColumnLayout {
  using Sides = std::array<int64_t, 2>;

  int64_t channels;
  Sides plane;   // height and width of the image, padding included: all windows fit
  Sides output;  // of the planes that come out
  Sides size;    // of the window
  Sides stride;
  Sides dilation;

  // Of the matrix.
  int64_t rows() const { return channels * size[0] * size[1]; }
};

// The output's rows whose columns are looked at.
struct OutputRows {
  int64_t begin;
  int64_t end;
};

// Lines of one length, at equal distances.
template <typename T>
struct LinePairs {
  const T* from;
  int64_t from_step;
  T* to;
  int64_t to_step;
  int64_t count;
  int64_t length;
};

// Of float and double, as all below.
template <typename T>
void copy_lines(const LinePairs<T>& lines);

// Fills the matrix.
template <typename T>
void write_columns(const ColumnLayout& layout, OutputRows rows, const T* image, T* matrix);

// The other way: adds every element of the matrix to the image's element that it would come from.
template <typename T>
void add_columns(const ColumnLayout& layout, OutputRows rows, const T* matrix, T* image);

// A product of two matrices that lie anywhere in memory, for kernels that make many small ones: the
// kernel library would want a tensor around each. out (rows x columns) = a (rows x inner) times
// b (inner x columns), row by row; rows begin `stride` elements apart. A transposed operand lies in
// memory as its columns would.
template <typename T>
struct MatrixProduct {
  struct Operand {
    const T* data;
    int64_t stride;
    bool transposed = false;
  };

  int64_t rows;
  int64_t columns;
  int64_t inner;
  Operand a;
  Operand b;
  T* out;
  int64_t out_stride;
  bool adds = false;  // to what is in `out`, instead of replacing it
};

// Computed on this thread by the BLAS that the kernel library uses. Every size and stride must be
// less than 2^31, and can_multiply() true: it is not where that BLAS cannot be found.
bool can_multiply();
void multiply(const MatrixProduct<float>& product);
void multiply(const MatrixProduct<double>& product);

}  // namespace cohort::internal
