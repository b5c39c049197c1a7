#pragma once

#include <cstdint>

namespace cohort::internal {

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
