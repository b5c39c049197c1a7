// Justified by the same row as kernels/image_columns.cc.

#include "kernels/matrix_product.h"

#include <dlfcn.h>

namespace cohort::internal {
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
