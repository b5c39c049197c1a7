#pragma once

#include <cstdint>

namespace cohort::internal {

// What a softmax cross entropy with class ids computes besides exponentials: in rows of numbers,
// one for each class, `ids` names a class of each row. Of float and double.
struct ClassRows {
  int64_t rows;
  int64_t classes;
  const int64_t* ids;  // each is a class
};

// losses[i] = -log_probs[i, ids[i]]
template <typename T>
void negated_choice(const ClassRows& of, const T* log_probs, T* losses);

// Replaces the probabilities by the gradient of the logits: g[i] * (probs[i] - one_hot(ids[i])).
template <typename T>
void make_logits_gradient(const ClassRows& of, const T* g, T* probs);

}  // namespace cohort::internal
