#include <cmath>

#include "base/raise.h"
#include "cohort/nn_layers.h"
#include "cohort/random.h"
#include "graph/scopes.h"

namespace cohort::nn {
namespace {

using cohort::internal::LibraryCode;

// How many inputs a unit has, and how many units its output goes to. A shape of two sizes is a
// dense kernel; a longer one is a convolution: (output channels, input channels, window...).
struct Fans {
  double in = 1;
  double out = 1;
};

Fans fans_of(const Shape& shape) {
  if (shape.rank() == 0) return {};
  const auto size = [&](int axis) { return static_cast<double>(shape[axis]); };
  if (shape.rank() == 1) return {size(0), size(0)};
  if (shape.rank() == 2) return {size(0), size(1)};
  double window = 1;
  for (int i = 2; i < shape.rank(); ++i) window *= size(i);
  return {size(1) * window, size(0) * window};
}

double glorot_variance(const Shape& shape) {
  const Fans fans = fans_of(shape);
  return 2 / (fans.in + fans.out);
}

double he_variance(const Shape& shape) { return 2 / fans_of(shape).in; }

using Variance = double (*)(const Shape&);

Initializer uniform_of(Variance variance) {
  return [variance](const Shape& shape, DType dtype) {
    const LibraryCode here;
    const double limit = std::sqrt(3 * variance(shape));
    return random::uniform(shape, {.low = -limit, .high = limit, .dtype = dtype});
  };
}

// A normal distribution cut at two deviations has this share of its deviation.
constexpr double kTruncatedDeviation = 0.87962566103423978;

Initializer normal_of(Variance variance) {
  return [variance](const Shape& shape, DType dtype) {
    const LibraryCode here;
    const double stddev = std::sqrt(variance(shape)) / kTruncatedDeviation;
    return random::truncated_normal(shape, {.stddev = stddev, .dtype = dtype});
  };
}

void check_stddev(std::string_view name, double stddev) {
  if (stddev >= 0 && std::isfinite(stddev)) return;
  cohort::internal::raise(Code::InvalidArgument,
                          "[{}] stddev must be finite and not negative, got {}", name, stddev);
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }

Initializer constant(double value) {
  return [value](const Shape& shape, DType dtype) {
    const LibraryCode here;
    return fill(shape, cast(value, dtype));
  };
}

Initializer uniform(double low, double high) {
  if (!(low < high) || !std::isfinite(high - low)) {
    cohort::internal::raise(Code::InvalidArgument,
                            "[uniform] low must be less than high, got {} and {}", low, high);
  }
  return [=](const Shape& shape, DType dtype) {
    const LibraryCode here;
    return random::uniform(shape, {.low = low, .high = high, .dtype = dtype});
  };
}

Initializer normal(double mean, double stddev) {
  check_stddev("normal", stddev);
  return [=](const Shape& shape, DType dtype) {
    const LibraryCode here;
    return random::normal(shape, {.mean = mean, .stddev = stddev, .dtype = dtype});
  };
}

Initializer truncated_normal(double mean, double stddev) {
  check_stddev("truncated_normal", stddev);
  return [=](const Shape& shape, DType dtype) {
    const LibraryCode here;
    return random::truncated_normal(shape, {.mean = mean, .stddev = stddev, .dtype = dtype});
  };
}

Initializer glorot_uniform() { return uniform_of(glorot_variance); }
Initializer glorot_normal() { return normal_of(glorot_variance); }
Initializer he_uniform() { return uniform_of(he_variance); }
Initializer he_normal() { return normal_of(he_variance); }

}  // namespace cohort::nn
