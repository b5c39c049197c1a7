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
  Sides plane;   // height and width of the image, padding included: every window lies inside
  Sides output;  // of the planes that come out
  Sides size;    // of the window
  Sides stride;
  Sides dilation;

  // Of the matrix.
  int64_t rows() const { return channels * size[0] * size[1]; }
  // The image's element that a row of the matrix begins with.
  int64_t offset(int64_t row) const;
};

// The output's rows whose columns are looked at.
struct OutputRows {
  int64_t begin;
  int64_t end;
};

// Fills the matrix.
void write_columns(const ColumnLayout& layout, OutputRows rows, const float* image, float* matrix);
void write_columns(const ColumnLayout& layout, OutputRows rows, const double* image,
                   double* matrix);

// The other way: adds every element of the matrix to the image's element that it would come from.
void add_columns(const ColumnLayout& layout, OutputRows rows, const float* matrix, float* image);
void add_columns(const ColumnLayout& layout, OutputRows rows, const double* matrix, double* image);

}  // namespace cohort::internal
