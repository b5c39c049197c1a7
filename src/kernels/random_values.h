#pragma once

#include <cstdint>

// Arrays of random numbers. Element i of an array depends on the key and on i only, so that threads
// may fill parts of one array: a part begins at a multiple of random_stretch<T>().
namespace cohort::internal {

struct RandomKey {
  uint64_t seed;
  uint64_t counter;  // of the first block (kernels/philox.h)
};

// A stretch of elements is filled at a time, so that its random words stay in the nearest cache.
inline constexpr int64_t kStretchBlocks = 256;

// How many elements one block gives: four of 32 bits, or two of 64.
template <typename T>
inline constexpr int64_t kPerBlock = sizeof(T) == 8 ? 2 : 4;

template <typename T>
constexpr int64_t random_stretch() {
  return kStretchBlocks * kPerBlock<T>;
}

// Uniform in [low, high), as fine as T allows. `last` is the largest number less than `high`:
// rounding may reach `high`.
template <typename T>
struct UniformValues {
  T low;
  T width;  // high - low
  T last;
};

// mean + stddev * x. x is normal, given that it lies within -most and most; `cut` is the
// probability that a normal value lies beyond one end.
struct NormalValues {
  double mean;
  double stddev;
  double cut;
  double most;
};

// Integers from `low` to before `low` + `bound`, each exactly as likely.
struct IntegerValues {
  uint64_t low;
  uint64_t bound;
};

// Sets elements `begin` to `end` of the array `values`.
void fill_random(RandomKey key, const UniformValues<float>& of, int64_t begin, int64_t end,
                 float* values);
void fill_random(RandomKey key, const UniformValues<double>& of, int64_t begin, int64_t end,
                 double* values);
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, float* values);
void fill_random(RandomKey key, const NormalValues& of, int64_t begin, int64_t end, double* values);
void fill_random(RandomKey key, const IntegerValues& of, int64_t begin, int64_t end,
                 int64_t* values);

// Puts `count` values into a random order, each order exactly as likely.
void shuffle_values(RandomKey key, int64_t count, int64_t* values);

}  // namespace cohort::internal
