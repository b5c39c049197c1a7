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
void copy_lines(const LinePairs<float>& lines);
void copy_lines(const LinePairs<double>& lines);

// Fills the matrix.
void write_columns(const ColumnLayout& layout, OutputRows rows, const float* image, float* matrix);
void write_columns(const ColumnLayout& layout, OutputRows rows, const double* image,
                   double* matrix);

// The other way: adds every element of the matrix to the image's element that it would come from.
void add_columns(const ColumnLayout& layout, OutputRows rows, const float* matrix, float* image);
void add_columns(const ColumnLayout& layout, OutputRows rows, const double* matrix, double* image);

}  // namespace cohort::internal
