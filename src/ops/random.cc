// Random floating numbers.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/raise.h"
#include "ops/normal_quantile.h"
#include "ops/random_draw.h"
#include "ops/random_ops.h"
#include "tensor/visit.h"

namespace cohort::internal {
namespace {

Specs infer_floating_draw(const OpInputs& inputs) {
  const Specs specs = infer_draw(inputs);
  if (!is_floating(specs[0].dtype)) {
    raise(Code::InvalidArgument, "[{}] draws {}, not {}; RandomInt draws integers", inputs.op,
          kFloatTypes.to_string(), to_string(specs[0].dtype));
  }
  return specs;
}

// `value` as a number of the dtype.
double rounded(double value, DType dtype) {
  return visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      return double{T(static_cast<float>(value))};
    } else {
      return static_cast<double>(static_cast<T>(value));
    }
  });
}

// The largest number of a floating dtype that is less than `value`, itself one and not infinite.
double just_below(double value, DType dtype) {
  return visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      T number(static_cast<float>(value));
      if (value == 0) {
        number.bits = 0x8001;  // the smallest negative one
      } else {
        number.bits = static_cast<uint16_t>(number.bits + (value > 0 ? -1 : 1));
      }
      return double{number};
    } else if constexpr (std::is_floating_point_v<T>) {
      return double{std::nextafter(static_cast<T>(value), -std::numeric_limits<T>::infinity())};
    } else {
      return value - 1;
    }
  });
}

Specs infer_uniform(const OpInputs& inputs) {
  const Specs specs = infer_floating_draw(inputs);
  const double low = rounded(inputs.attrs.number("low"), specs[0].dtype);
  const double high = rounded(inputs.attrs.number("high"), specs[0].dtype);
  if (!(low < high) || !std::isfinite(rounded(high - low, specs[0].dtype))) {
    raise(Code::InvalidArgument, "[{}] needs low < high, both finite in {}, got low {} and high {}",
          inputs.op, to_string(specs[0].dtype), inputs.attrs.number("low"),
          inputs.attrs.number("high"));
  }
  return specs;
}

Specs infer_normal(const OpInputs& inputs) {
  const double mean = inputs.attrs.number("mean");
  const double stddev = inputs.attrs.number("stddev");
  if (!std::isfinite(mean) || !std::isfinite(stddev) || stddev < 0) {
    raise(Code::InvalidArgument,
          "[{}] needs a finite mean and a finite stddev of 0 or more, got mean {} and stddev {}",
          inputs.op, mean, stddev);
  }
  return infer_floating_draw(inputs);
}

// A number in [0, 1), as fine as T allows.
inline float unit(uint32_t word) {
  return static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-24f;
}
inline double unit(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

template <typename T>
at::Tensor draw_uniform(const Kernel& k, double low, double high, double most) {
  const at::Tensor out = empty_draw(k, dtype_of<T>);
  T* const values = out.data_ptr<T>();
  const T start = static_cast<T>(low);
  const T width = static_cast<T>(high - low);
  const T last = static_cast<T>(most);
  fill_stretches<T>(key_of(k), out, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = std::min(start + unit(word_at<T>(words, i)) * width, last);
    }
  });
  return out;
}

void compute_uniform(Kernel& k) {
  const auto dtype = k.attrs.get<DType>("dtype");
  const double low = rounded(k.attrs.number("low"), dtype);
  const double high = rounded(k.attrs.number("high"), dtype);
  // Rounding may reach `high`, which is not to be drawn.
  const double most = just_below(high, dtype);
  if (dtype == kFloat64) return set(k, draw_uniform<double>(k, low, high, most));
  at::Tensor out = draw_uniform<float>(k, low, high, most);
  if (dtype != kFloat32) {
    // Rounding again; 16-bit floats have no clamp kernel of their own.
    out = out.to(to_aten(dtype)).to(at::kFloat).clamp_max_(most).to(to_aten(dtype));
  }
  set(k, std::move(out));
}

// A probability in (0, 1).
inline double probability(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }
inline double probability(uint64_t word) {
  return (static_cast<double>(static_cast<int64_t>(word >> 12)) + 0.5) * 0x1p-52;
}

// Draws mean + stddev * x, where x is normal given that it is less likely than `cut` to lie beyond
// either end; `most` is that end.
template <typename T>
at::Tensor draw_normal(const Kernel& k, double cut, double most) {
  const double mean = k.attrs.number("mean");
  const double stddev = k.attrs.number("stddev");
  const at::Tensor out = empty_draw(k, dtype_of<T>);
  T* const values = out.data_ptr<T>();
  fill_stretches<T>(key_of(k), out, [=](const uint32_t* words, int64_t first, int64_t count) {
    std::array<double, kStretchBlocks * kPerBlock<T>> x;
    for (int64_t i = 0; i < count; ++i) {
      x[i] = cut + probability(word_at<T>(words, i)) * (1 - 2 * cut);
    }
    normal_quantiles(x.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = static_cast<T>(mean + stddev * std::clamp(x[i], -most, most));
    }
  });
  return out;
}

void compute_normal(Kernel& k, double cut, double most) {
  const auto dtype = k.attrs.get<DType>("dtype");
  const at::Tensor out =
      dtype == kFloat64 ? draw_normal<double>(k, cut, most) : draw_normal<float>(k, cut, most);
  set(k, out.to(to_aten(dtype)));
}

}  // namespace

extern constexpr OpDef kRandomUniform{
    .name = "RandomUniform",
    .inputs = 1,
    .dtypes = kKeyType,
    .attrs = {{"shape", AttrKind::Shape},
              {"dtype", AttrKind::DType},
              {"low", AttrKind::Float},
              {"high", AttrKind::Float}},
    .infer = infer_uniform,
    .compute = compute_uniform,
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random,
};

extern constexpr OpDef kRandomNormal{
    .name = "RandomNormal",
    .inputs = 1,
    .dtypes = kKeyType,
    .attrs = {{"shape", AttrKind::Shape},
              {"dtype", AttrKind::DType},
              {"mean", AttrKind::Float},
              {"stddev", AttrKind::Float}},
    .infer = infer_normal,
    .compute = [](Kernel& k) { compute_normal(k, 0, std::numeric_limits<double>::infinity()); },
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random,
};

extern constexpr OpDef kRandomTruncatedNormal{
    .name = "RandomTruncatedNormal",
    .inputs = 1,
    .dtypes = kKeyType,
    .attrs = {{"shape", AttrKind::Shape},
              {"dtype", AttrKind::DType},
              {"mean", AttrKind::Float},
              {"stddev", AttrKind::Float}},
    .infer = infer_normal,
    // 0.0227...: how likely a normal value is to be less than -2
    .compute = [](Kernel& k) { compute_normal(k, 0.022750131948179207, 2); },
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random,
};

}  // namespace cohort::internal
