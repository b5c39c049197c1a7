#pragma once

#include <cstdint>

#include "cohort/site.h"
#include "cohort/tensor.h"

// Random tensors. Element i of a draw is a function of (seed, counter, i) alone, computed with the
// Philox 4x32-10 generator: the same seed gives the same numbers on any number of threads.
namespace cohort::random {

struct UniformOptions {
  double low = 0;   // included
  double high = 1;  // not included
  DType dtype = kFloat32;
};

struct NormalOptions {
  double mean = 0;
  double stddev = 1;
  DType dtype = kFloat32;
};

// A stream of random numbers: a seed, and a counter of the 128-bit blocks that were used.
//
// Not thread-safe; give each thread its own with split(). A copy repeats what the original draws. A
// draw that throws uses nothing up.
//
// In a graph being built, and in a function being traced, a draw is a node: the first run (or call)
// that draws has the numbers of now, and each further one has new ones that depend on the seed and
// on how many there were. The iterations of one while_loop in one run have the same numbers.
class Generator {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}

  // Floating dtypes. Throw InvalidArgument for sizes below 0, for bounds or deviations that are not
  // finite, when low >= high (or both round to one number of the dtype), and when stddev < 0.
  Tensor uniform(const Shape& shape, const UniformOptions& options = {}, Site site = Site::here());
  Tensor normal(const Shape& shape, const NormalOptions& options = {}, Site site = Site::here());
  // As normal, given that the value is at most two standard deviations from the mean.
  Tensor truncated_normal(const Shape& shape, const NormalOptions& options = {},
                          Site site = Site::here());
  // Integers from low to high - 1, each exactly as likely. Throws InvalidArgument when there are
  // none, or when they do not fit the dtype.
  Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype = kInt64,
                 Site site = Site::here());
  // `x` with the parts of its first dimension in random order. Any dtype; at least one dimension.
  Tensor shuffle(const Tensor& x, Site site = Site::here());

  // A generator whose numbers have nothing to do with this one's. Each call gives another one.
  Generator split();

  // Seed and counter, int64 of shape (2,): what a checkpoint keeps. restore throws InvalidArgument
  // for anything else.
  Tensor state() const;
  void restore(const Tensor& state);

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

// The same from this thread's own generator. Until set_seed is called in a thread, its numbers
// differ from run to run and from thread to thread.
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
