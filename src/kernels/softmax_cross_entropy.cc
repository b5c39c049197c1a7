// Justified by "softmax cross entropy of 128 x 10, gradient" of `bench_foundation`: one pass over
// the probabilities, in place, where the kernel library needs several.

#include "kernels/softmax_cross_entropy.h"

namespace cohort::internal {

template <typename T>
void negated_choice(const ClassRows& of, const T* log_probs, T* losses) {
  for (int64_t i = 0; i < of.rows; ++i) losses[i] = -log_probs[i * of.classes + of.ids[i]];
}

template <typename T>
void make_logits_gradient(const ClassRows& of, const T* g, T* probs) {
  T* row = probs;
  for (int64_t i = 0; i < of.rows; ++i, row += of.classes) {
    const T factor = g[i];
    row[of.ids[i]] -= 1;
    for (int64_t j = 0; j < of.classes; ++j) row[j] *= factor;
  }
}

template void negated_choice(const ClassRows&, const float*, float*);
template void negated_choice(const ClassRows&, const double*, double*);
template void make_logits_gradient(const ClassRows&, const float*, float*);
template void make_logits_gradient(const ClassRows&, const double*, double*);

}  // namespace cohort::internal
