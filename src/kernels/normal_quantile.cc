// Justified by the same row as kernels/random_values.cc.

#include "kernels/normal_quantile.h"

#include <algorithm>
#include <array>
#include <cmath>

// Rational approximations of M. J. Wichura, "Algorithm AS 241: the percentage points of the normal
// distribution" (1988). Coefficients from the constant term up.
namespace cohort::internal {
namespace {

using Coefficients = std::array<double, 8>;

// |p - 1/2| <= 0.425, in 0.180625 - (p - 1/2)^2
constexpr Coefficients kCentreOver = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                      1.9715909503065514427e3, 1.3731693765509461125e4,
                                      4.5921953931549871457e4, 6.7265770927008700853e4,
                                      3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr Coefficients kCentreUnder = {1.0,
                                       4.2313330701600911252e1,
                                       6.8718700749205790830e2,
                                       5.3941960214247511077e3,
                                       2.1213794301586595867e4,
                                       3.9307895800092710610e4,
                                       2.8729085735721942674e4,
                                       5.2264952788528545610e3};
// r = sqrt(-log of the tail's probability) <= 5, in r - 1.6
constexpr Coefficients kTailOver = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                    5.76949722146069140550e0,  3.64784832476320460504e0,
                                    1.27045825245236838258e0,  2.41780725177450611770e-1,
                                    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailUnder = {1.0,
                                     2.05319162663775882187e0,
                                     1.67638483018380384940e0,
                                     6.89767334985100004550e-1,
                                     1.48103976427480074590e-1,
                                     1.51986665636164571966e-2,
                                     5.47593808499534494600e-4,
                                     1.05075007164441684324e-9};
// r > 5, in r - 5
constexpr Coefficients kFarOver = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                   1.78482653991729133580e0,  2.96560571828504891230e-1,
                                   2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarUnder = {1.0,
                                    5.99832206555887937690e-1,
                                    1.36929880922735805310e-1,
                                    1.48753612908506148525e-2,
                                    7.86869131145613259100e-4,
                                    1.84631831751005468180e-5,
                                    1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};

inline double polynomial(const Coefficients& c, double x) {
  double value = c[7];
  for (int i = 6; i >= 0; --i) value = value * x + c[i];
  return value;
}

// |q| up to here is the centre, where no logarithm is needed: 85 of 100 values.
constexpr double kCentre = 0.425;

inline double centre(double q) {
  const double r = kCentre * kCentre - q * q;
  return q * polynomial(kCentreOver, r) / polynomial(kCentreUnder, r);
}

double tail(double p) {
  const bool lower = p < 0.5;
  const double r = std::sqrt(-std::log(lower ? p : 1 - p));
  const double x = r <= 5 ? polynomial(kTailOver, r - 1.6) / polynomial(kTailUnder, r - 1.6)
                          : polynomial(kFarOver, r - 5) / polynomial(kFarUnder, r - 5);
  return lower ? -x : x;
}

}  // namespace

double normal_quantile(double p) {
  return std::fabs(p - 0.5) <= kCentre ? centre(p - 0.5) : tail(p);
}

// First the centre's formula for all, which the compiler vectorises, then the tails.
void normal_quantiles(double* p, int64_t count) {
  constexpr int64_t kStretch = 64;
  std::array<double, kStretch> given;
  for (int64_t first = 0; first < count; first += kStretch) {
    double* const x = p + first;
    const int64_t size = std::min(kStretch, count - first);
    std::copy_n(x, size, given.begin());
    for (int64_t i = 0; i < size; ++i) x[i] = centre(given[i] - 0.5);
    for (int64_t i = 0; i < size; ++i) {
      if (std::fabs(given[i] - 0.5) > kCentre) x[i] = tail(given[i]);
    }
  }
}

}  // namespace cohort::internal
