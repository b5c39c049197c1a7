#pragma once

#include "cohort/tensor.h"

// Random tensors. Element i of a draw depends on (seed, counter, i) alone and is computed with the
// Philox 4x32-10 generator, so a seed gives the same numbers on any number of threads.
namespace cohort::random {

// UniformOptions sets the range and dtype of uniform numbers.
struct UniformOptions {
  double low = 0;   // included
  double high = 1;  // not included
  DType dtype = kFloat32;
};

// NormalOptions sets the distribution and dtype of normal numbers.
struct NormalOptions {
  double mean = 0;
  double stddev = 1;
  DType dtype = kFloat32;
};

// Generator draws a stream of random numbers from a seed and counts the 128-bit blocks it has used.
//
//   random::Generator generator(42);
//   Tensor noise = generator.normal({2, 3}, {.stddev = 0.1});
//   Tensor dice = generator.randint({10}, 1, 7);
//
// A Generator is not thread-safe; give each thread its own generator with split(). A copy draws the
// same numbers as the original. A draw that throws does not advance the generator.
//
// In a graph being built, and in a function being traced, a draw is a node. The first run (or call)
// that draws uses the numbers that a draw would give now. Each further run has new numbers, which
// depend on the seed and the number of earlier runs. All iterations of a while_loop() in one run
// have the same numbers. The calls that a ClusterCoordinator schedules are counted in the order of
// scheduling, so they draw different numbers, whichever workers run them.
class Generator {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}

  // The dtype must be floating. Throw InvalidArgument if a size is negative, if a bound, mean or
  // stddev is not finite, if low >= high (also after rounding to the dtype), or if stddev < 0.
  Tensor uniform(const Shape& shape, const UniformOptions& options = {}, Site site = Site::here());
  Tensor normal(const Shape& shape, const NormalOptions& options = {}, Site site = Site::here());
  // Draws normal numbers within two standard deviations of the mean.
  Tensor truncated_normal(const Shape& shape, const NormalOptions& options = {},
                          Site site = Site::here());
  // Draws integers from low to high - 1, all with the same probability. Throws InvalidArgument if
  // low >= high or if the integers do not fit the dtype.
  Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype = kInt64,
                 Site site = Site::here());
  // Returns `x` with the parts of its first dimension in random order. `x` may have any dtype and
  // must have at least one dimension.
  Tensor shuffle(const Tensor& x, Site site = Site::here());

  // Returns a generator with unrelated numbers. Each call returns another generator.
  Generator split();

  // Seed and counter, int64 of shape (2,), for checkpoints. restore() throws InvalidArgument unless
  // `state` has this form.
  Tensor state() const;
  void restore(const Tensor& state);

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

// The functions below draw from this thread's own generator. Until a thread calls set_seed(), its
// numbers differ from run to run and from thread to thread.
void set_seed(uint64_t seed);
Generator& default_generator();

Tensor uniform(const Shape& shape, const UniformOptions& options = {}, Site site = Site::here());
Tensor normal(const Shape& shape, const NormalOptions& options = {}, Site site = Site::here());
Tensor truncated_normal(const Shape& shape, const NormalOptions& options = {},
                        Site site = Site::here());
Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype = kInt64,
               Site site = Site::here());
Tensor shuffle(const Tensor& x, Site site = Site::here());

}  // namespace cohort::random
