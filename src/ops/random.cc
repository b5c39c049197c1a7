#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

#include "base/raise.h"
#include "ops/kernel.h"
#include "ops/normal_quantile.h"
#include "ops/philox.h"
#include "ops/random_ops.h"
#include "tensor/visit.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kDrawn = "its result is drawn at random";
constexpr DTypeSet kKeyType{1 << static_cast<int>(DType::Int64)};
constexpr int64_t kBlocksPerTask = 4096;

struct Key {
  uint64_t seed;
  uint64_t counter;
};

Key key_of(const Kernel& k) {
  const at::Tensor key = in(k, 0).contiguous();
  const int64_t* values = key.data_ptr<int64_t>();
  return {static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1])};
}

// Sets out[i] = make(words, j) where `words` are those of block i / kPerBlock and j = i %
// kPerBlock.
template <int kPerBlock, typename T, typename Make>
void fill_from_blocks(Key key, const at::Tensor& out, Make make) {
  T* const values = out.data_ptr<T>();
  const int64_t count = out.numel();
  const int64_t blocks = (count + kPerBlock - 1) / kPerBlock;
  at::parallel_for(0, blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto number = key.counter + static_cast<uint64_t>(i);
      const PhiloxBlock words = philox(key.seed, number, PhiloxSequence::Draw);
      const auto left = static_cast<int>(std::min<int64_t>(kPerBlock, count - i * kPerBlock));
      for (int j = 0; j < left; ++j) values[i * kPerBlock + j] = make(words, j);
    }
  });
}

void check_key(const OpInputs& inputs) {
  if (inputs.dtype(0) == kInt64 && inputs.shape(0).is_compatible_with(Shape{2})) return;
  raise(Code::InvalidArgument, "[{}] the key must be int64 of shape (2,), got {} of shape {}",
        inputs.op, to_string(inputs.dtype(0)), inputs.shape(0).to_string());
}

Specs infer_draw(const OpInputs& inputs) {
  check_key(inputs);
  const auto& shape = inputs.attrs.get<Shape>("shape");
  const auto dtype = inputs.attrs.get<DType>("dtype");
  if (!shape.is_fully_known()) {
    raise(Code::InvalidArgument, "[{}] every size must be 0 or more, got shape {}", inputs.op,
          shape.to_string());
  }
  require_allocatable(inputs.op, shape, dtype);
  return {{dtype, shape}};
}

Specs infer_floating_draw(const OpInputs& inputs) {
  const Specs specs = infer_draw(inputs);
  if (!is_floating(specs[0].dtype)) {
    raise(Code::InvalidArgument, "[{}] draws {}, not {}; RandomInt draws integers", inputs.op,
          kFloatTypes.to_string(), to_string(specs[0].dtype));
  }
  return specs;
}

at::Tensor empty_draw(const Kernel& k, DType dtype) {
  return at::empty(sizes(k.attrs.get<Shape>("shape")), to_aten(dtype));
}

// The dtype that values are computed in: 16-bit floats are rounded from float32.
DType drawn_dtype(const Kernel& k) {
  return k.attrs.get<DType>("dtype") == kFloat64 ? kFloat64 : kFloat32;
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

void compute_uniform(Kernel& k) {
  const auto dtype = k.attrs.get<DType>("dtype");
  const double low = rounded(k.attrs.number("low"), dtype);
  const double high = rounded(k.attrs.number("high"), dtype);
  // Rounding may reach `high`, which is not to be drawn.
  const double most = just_below(high, dtype);
  at::Tensor out = empty_draw(k, drawn_dtype(k));
  if (dtype == kFloat64) {
    fill_from_blocks<2, double>(key_of(k), out, [=](const PhiloxBlock& words, int j) {
      const double unit = static_cast<double>(philox_half(words, j) >> 11) * 0x1p-53;
      return std::min(low + unit * (high - low), most);
    });
    return set(k, std::move(out));
  }
  const auto start = static_cast<float>(low);
  const auto width = static_cast<float>(high - low);
  const auto last = static_cast<float>(most);
  fill_from_blocks<4, float>(key_of(k), out, [=](const PhiloxBlock& words, int j) {
    const float unit = static_cast<float>(words[j] >> 8) * 0x1p-24f;
    return std::min(start + unit * width, last);
  });
  if (dtype != kFloat32) {
    // Rounding may reach the upper bound; 16-bit floats have no clamp kernel of their own.
    const at::Tensor rounded = out.to(to_aten(dtype)).to(at::kFloat);
    out = rounded.clamp_max(last).to(to_aten(dtype));
  }
  set(k, std::move(out));
}

// Draws mean + stddev * quantile(p) with p even over (0, 1).
template <typename Quantile>
void draw_normal(Kernel& k, Quantile quantile) {
  const double mean = k.attrs.number("mean");
  const double stddev = k.attrs.number("stddev");
  const at::Tensor out = empty_draw(k, drawn_dtype(k));
  if (out.scalar_type() == at::kDouble) {
    fill_from_blocks<2, double>(key_of(k), out, [=](const PhiloxBlock& words, int j) {
      const double p = (static_cast<double>(philox_half(words, j) >> 12) + 0.5) * 0x1p-52;
      return mean + stddev * quantile(p);
    });
  } else {
    fill_from_blocks<4, float>(key_of(k), out, [=](const PhiloxBlock& words, int j) {
      const double p = (static_cast<double>(words[j]) + 0.5) * 0x1p-32;
      return static_cast<float>(mean + stddev * quantile(p));
    });
  }
  set(k, out.to(to_aten(k.attrs.get<DType>("dtype"))));
}

// A number below `bound`, each exactly as likely (D. Lemire, "Fast random integer generation in an
// interval", 2019). `word` is the first try; further ones come from sequences of their own, so that
// no element depends on another.
uint64_t bounded(Key key, int64_t element, uint64_t word, uint64_t bound) {
  for (uint64_t attempt = static_cast<uint64_t>(PhiloxSequence::Retry);; ++attempt) {
    const auto product = static_cast<unsigned __int128>(word) * bound;
    const auto low = static_cast<uint64_t>(product);
    if (low >= bound || low >= -bound % bound) return static_cast<uint64_t>(product >> 64);
    const auto number = key.counter + static_cast<uint64_t>(element / 2);
    word = philox_half(philox(key.seed, number, attempt), static_cast<int>(element % 2));
  }
}

Specs infer_int(const OpInputs& inputs) {
  const Specs specs = infer_draw(inputs);
  const DType dtype = specs[0].dtype;
  const int64_t low = inputs.attrs.integer("low");
  const int64_t high = inputs.attrs.integer("high");
  if (!is_integer(dtype)) {
    raise(Code::InvalidArgument, "[{}] draws {}, not {}; RandomUniform draws floats", inputs.op,
          kIntegerTypes.to_string(), to_string(dtype));
  }
  if (low >= high) {
    raise(Code::InvalidArgument, "[{}] needs low < high, got low {} and high {}", inputs.op, low,
          high);
  }
  visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>) {
      if (low >= std::numeric_limits<T>::min() && high - 1 <= std::numeric_limits<T>::max()) return;
    }
    raise(Code::InvalidArgument, "[{}] {} does not hold every integer from {} to {}", inputs.op,
          to_string(dtype), low, high - 1);
  });
  return specs;
}

void compute_int(Kernel& k) {
  const auto low = static_cast<uint64_t>(k.attrs.integer("low"));
  const uint64_t bound = static_cast<uint64_t>(k.attrs.integer("high")) - low;
  const Key key = key_of(k);
  const at::Tensor out = empty_draw(k, kInt64);
  int64_t* const values = out.data_ptr<int64_t>();
  at::parallel_for(0, (out.numel() + 1) / 2, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto number = key.counter + static_cast<uint64_t>(i);
      const PhiloxBlock words = philox(key.seed, number, PhiloxSequence::Draw);
      for (int64_t element = 2 * i; element < std::min(2 * i + 2, out.numel()); ++element) {
        const uint64_t word = philox_half(words, static_cast<int>(element % 2));
        values[element] = static_cast<int64_t>(low + bounded(key, element, word, bound));
      }
    }
  });
  set(k, out.to(to_aten(k.attrs.get<DType>("dtype"))));
}

void compute_permutation(Kernel& k) {
  const Key key = key_of(k);
  const int64_t count = k.inputs[1].shape()[0];
  const at::Tensor out = at::arange(count, at::kLong);
  int64_t* const values = out.data_ptr<int64_t>();
  for (int64_t i = count - 1; i > 0; --i) {  // Fisher and Yates
    const auto number = key.counter + static_cast<uint64_t>(i / 2);
    const PhiloxBlock words = philox(key.seed, number, PhiloxSequence::Draw);
    const uint64_t word = philox_half(words, static_cast<int>(i % 2));
    std::swap(values[i], values[bounded(key, i, word, static_cast<uint64_t>(i) + 1)]);
  }
  set(k, out);
}

}  // namespace

extern constexpr OpDef kRandomUniform{
    .name = "RandomUniform",
    .dtypes = kKeyType,
    .infer = infer_uniform,
    .compute = compute_uniform,
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
};

extern constexpr OpDef kRandomNormal{
    .name = "RandomNormal",
    .dtypes = kKeyType,
    .infer = infer_normal,
    .compute = [](Kernel& k) { draw_normal(k, normal_quantile); },
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
};

extern constexpr OpDef kRandomTruncatedNormal{
    .name = "RandomTruncatedNormal",
    .dtypes = kKeyType,
    .infer = infer_normal,
    .compute =
        [](Kernel& k) {
          constexpr double kBelow = 0.022750131948179207;  // how likely a value is less than -2
          draw_normal(k, [](double p) {
            return std::clamp(normal_quantile(kBelow + p * (1 - 2 * kBelow)), -2.0, 2.0);
          });
        },
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
};

extern constexpr OpDef kRandomInt{
    .name = "RandomInt",
    .dtypes = kKeyType,
    .infer = infer_int,
    .compute = compute_int,
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
};

extern constexpr OpDef kRandomPermutation{
    .name = "RandomPermutation",
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      check_key(inputs);
      const Shape& x = inputs.shape(1);
      require_rank_at_least(inputs.op, x, 1, "what is shuffled");
      return {{kInt64, Shape{x.has_rank() ? x[0] : Shape::kUnknownDim}}};
    },
    .compute = compute_permutation,
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
};

}  // namespace cohort::internal
