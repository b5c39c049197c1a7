// The random ops and the generators that call them. An op is a function of a key tensor, (seed,
// counter) as int64 of shape (2,), which is its input 0; shape and parameters are attributes.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/raise.h"
#include "base/random_number.h"
#include "cohort/ops.h"
#include "cohort/random.h"
#include "kernels/dtypes.h"
#include "kernels/random_values.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"
#include "ops/run_context.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kDrawn = "its result is drawn at random";

RandomKey key_of(const Kernel& k) {
  const at::Tensor key = in(k, 0).contiguous();
  const int64_t* values = key.data_ptr<int64_t>();
  return {static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1])};
}

void check_key(const OpInputs& inputs) {
  if (inputs.dtype(0) == kInt64 && inputs.shape(0).is_compatible_with(Shape{2})) return;
  raise(Code::InvalidArgument, "[{}] the key must be int64 of shape (2,), got {} of shape {}",
        inputs.op, to_string(inputs.dtype(0)), inputs.shape(0).to_string());
}

// The key, the shape and that it fits into memory.
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

// `value` as a number of the dtype.
double rounded(double value, DType dtype) {
  return visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (kIs16BitFloat<T>) {
      return double{T(static_cast<float>(value))};
    } else {
      return static_cast<double>(static_cast<T>(value));
    }
  });
}

// The largest number of a floating dtype that is less than `value`, itself one and not infinite.
double just_below(double value, DType dtype) {
  return visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (kIs16BitFloat<T>) {
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

// A new tensor of T; threads fill parts of it.
template <typename T, typename Values>
at::Tensor draw(const Kernel& k, const Values& values) {
  constexpr int64_t kPerTask = 32;  // stretches
  constexpr int64_t kStretch = random_stretch<T>();
  const RandomKey key = key_of(k);
  const at::Tensor out = at::empty(sizes(k.attrs.get<Shape>("shape")), to_aten(dtype_of<T>));
  const int64_t count = out.numel();
  at::parallel_for(0, (count + kStretch - 1) / kStretch, kPerTask, [&](int64_t begin, int64_t end) {
    fill_random(key, values, begin * kStretch, std::min(end * kStretch, count), out.data_ptr<T>());
  });
  return out;
}

template <typename T>
at::Tensor draw_uniform(const Kernel& k, double low, double high, double last) {
  return draw<T>(k, UniformValues<T>{.low = static_cast<T>(low),
                                     .width = static_cast<T>(high - low),
                                     .last = static_cast<T>(last)});
}

void compute_uniform(Kernel& k) {
  const auto dtype = k.attrs.get<DType>("dtype");
  const double low = rounded(k.attrs.number("low"), dtype);
  const double high = rounded(k.attrs.number("high"), dtype);
  const double last = just_below(high, dtype);
  if (dtype == kFloat64) return set(k, draw_uniform<double>(k, low, high, last));
  at::Tensor out = draw_uniform<float>(k, low, high, last);
  if (dtype != kFloat32) {
    // Rounding again; 16-bit floats have no clamp kernel of their own.
    out = out.to(to_aten(dtype)).to(at::kFloat).clamp_max_(last).to(to_aten(dtype));
  }
  set(k, std::move(out));
}

void compute_normal(Kernel& k, double cut, double most) {
  const auto dtype = k.attrs.get<DType>("dtype");
  const NormalValues values{
      .mean = k.attrs.number("mean"), .stddev = k.attrs.number("stddev"), .cut = cut, .most = most};
  const at::Tensor out = dtype == kFloat64 ? draw<double>(k, values) : draw<float>(k, values);
  set(k, out.to(to_aten(dtype)));
}

void compute_int(Kernel& k) {
  const auto low = static_cast<uint64_t>(k.attrs.integer("low"));
  const uint64_t bound = static_cast<uint64_t>(k.attrs.integer("high")) - low;
  const at::Tensor out = draw<int64_t>(k, IntegerValues{low, bound});
  set(k, out.to(to_aten(k.attrs.get<DType>("dtype"))));
}

void compute_permutation(Kernel& k) {
  const at::Tensor out = at::arange(k.inputs[1].shape()[0], at::kLong);
  shuffle_values(key_of(k), out.numel(), out.data_ptr<int64_t>());
  set(k, out);
}

constexpr AttrList kNormalAttrs{{"mean", AttrKind::Float}, {"stddev", AttrKind::Float}};

constexpr OpDef draw_op(std::string_view name, const AttrList& parameters, Infer infer,
                        Compute compute) {
  return {.name = name,
          .inputs = 1,
          .dtypes = {1 << static_cast<int>(DType::Int64)},  // of the key
          .attrs = AttrList{{"shape", AttrKind::Shape}, {"dtype", AttrKind::DType}} + parameters,
          .infer = infer,
          .compute = compute,
          .no_gradient_because = kDrawn,
          .traits = Trait::Random | Trait::HostKernel};
}

uint64_t redrawn(uint64_t seed, uint64_t number, PhiloxSequence sequence) {
  return number == 0 ? seed : philox_half(philox(seed, number, sequence), 0);
}

}  // namespace

extern constexpr OpDef kRandomUniform =
    draw_op("RandomUniform", {{"low", AttrKind::Float}, {"high", AttrKind::Float}}, infer_uniform,
            compute_uniform);

extern constexpr OpDef kRandomNormal =
    draw_op("RandomNormal", kNormalAttrs, infer_normal,
            [](Kernel& k) { compute_normal(k, 0, std::numeric_limits<double>::infinity()); });

// 0.0227...: how likely a normal value is to be less than -2
extern constexpr OpDef kRandomTruncatedNormal =
    draw_op("RandomTruncatedNormal", kNormalAttrs, infer_normal,
            [](Kernel& k) { compute_normal(k, 0.022750131948179207, 2); });

extern constexpr OpDef kRandomInt =
    draw_op("RandomInt", {{"low", AttrKind::Int}, {"high", AttrKind::Int}}, infer_int, compute_int);

// Input 1 is a tensor whose first size says how many numbers are permuted.
extern constexpr OpDef kRandomPermutation{
    .name = "RandomPermutation",
    .inputs = 2,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      check_key(inputs);
      const Shape& x = inputs.shape(1);
      require_rank_at_least(inputs.op, x, 1, "what is shuffled");
      return {{kInt64, Shape{x.has_rank() ? x[0] : Shape::kUnknownDim}}};
    },
    .compute = compute_permutation,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random | Trait::HostKernel,
};

// The key of a draw in a graph. The first run that draws takes "seed" and "counter" as they were
// when the graph was built; later runs mix their number into the seed. "call" tells copies of one
// function's body in one graph apart.
extern constexpr OpDef kRandomKey{
    .name = "RandomKey",
    .inputs = 0,
    .dtypes = kAnyType,
    .attrs = {{"seed", AttrKind::Int}, {"counter", AttrKind::Int}, {"call", AttrKind::Int}},
    .infer = [](const OpInputs&) -> Specs {
      return {{kInt64, Shape{2}}};
    },
    .compute =
        [](Kernel& k) {
          const auto call = static_cast<uint64_t>(k.attrs.integer("call"));
          const uint64_t run = k.run != nullptr ? k.run->run_number() : 0;
          uint64_t seed = static_cast<uint64_t>(k.attrs.integer("seed"));
          seed = redrawn(seed, call, PhiloxSequence::Call);
          seed = redrawn(seed, run, PhiloxSequence::Run);
          k.outputs[0] = Tensor({static_cast<int64_t>(seed), k.attrs.integer("counter")});
        },
    .no_gradient_because = kDrawn,
    .traits = Trait::Random | Trait::HostKernel,
};

}  // namespace cohort::internal

namespace cohort::random {
namespace {

using internal::apply;
using internal::Attrs;
using internal::OpDef;

// What a draw takes as its key: the numbers of now, or in a graph a node that changes them from run
// to run.
Tensor key_now(const Tensor& state, Site site) {
  if (internal::thread_dispatch().builder == nullptr) return state;
  return apply(
      internal::kRandomKey, {},
      {{"seed", state.at<int64_t>({0})}, {"counter", state.at<int64_t>({1})}, {"call", int64_t{0}}},
      site);
}

// 128-bit blocks that a draw of `count` values uses.
constexpr uint64_t random_blocks(int64_t count, DType dtype) {
  const bool wide = dtype >= kFloat64;  // float64 and integers take 64 bits each, the others 32
  const auto values = static_cast<uint64_t>(count);
  return wide ? (values + 1) / 2 : (values + 3) / 4;
}

// Draws with the generator of that state, whose counter moves on.
Tensor draw(const OpDef& op, const Tensor& state, uint64_t& counter, const Attrs& attrs,
            Site site) {
  const Tensor values = apply(op, {key_now(state, site)}, attrs, site);
  counter += random_blocks(values.size(), values.dtype());
  return values;
}

Attrs attrs_of(const Shape& shape, const NormalOptions& options) {
  return {{"shape", shape},
          {"dtype", options.dtype},
          {"mean", options.mean},
          {"stddev", options.stddev}};
}

}  // namespace

Tensor Generator::uniform(const Shape& shape, const UniformOptions& options, Site site) {
  return draw(
      internal::kRandomUniform, state(), counter_,
      {{"shape", shape}, {"dtype", options.dtype}, {"low", options.low}, {"high", options.high}},
      site);
}

Tensor Generator::normal(const Shape& shape, const NormalOptions& options, Site site) {
  return draw(internal::kRandomNormal, state(), counter_, attrs_of(shape, options), site);
}

Tensor Generator::truncated_normal(const Shape& shape, const NormalOptions& options, Site site) {
  return draw(internal::kRandomTruncatedNormal, state(), counter_, attrs_of(shape, options), site);
}

Tensor Generator::randint(const Shape& shape, int64_t low, int64_t high, DType dtype, Site site) {
  return draw(internal::kRandomInt, state(), counter_,
              {{"shape", shape}, {"dtype", dtype}, {"low", low}, {"high", high}}, site);
}

Tensor Generator::shuffle(const Tensor& x, Site site) {
  const internal::BuilderOf building(x);
  const Tensor order = apply(internal::kRandomPermutation, {key_now(state(), site), x}, {}, site);
  const int64_t count = order.shape()[0];
  // More than any dimension needs, where it is not known yet.
  constexpr uint64_t kReserved = uint64_t{1} << 40;
  counter_ += count < 0 ? kReserved : random_blocks(count, kInt64);
  return gather(x, order, 0, site);
}

Generator Generator::split() {
  using internal::PhiloxSequence;
  const internal::PhiloxBlock block = internal::philox(seed_, counter_, PhiloxSequence::Split);
  ++counter_;
  return Generator(internal::philox_half(block, 0));
}

Tensor Generator::state() const {
  return Tensor({static_cast<int64_t>(seed_), static_cast<int64_t>(counter_)});
}

void Generator::restore(const Tensor& state) {
  if (!state.defined() || state.dtype() != kInt64 || !(state.shape() == Shape{2})) {
    internal::raise(Code::InvalidArgument,
                    "[Generator] a state is int64 of shape (2,), got {} of shape {}",
                    state.defined() ? to_string(state.dtype()) : "nothing",
                    state.defined() ? state.shape().to_string() : "()");
  }
  seed_ = static_cast<uint64_t>(state.at<int64_t>({0}));
  counter_ = static_cast<uint64_t>(state.at<int64_t>({1}));
}

Generator& default_generator() {
  thread_local Generator generator(internal::random_number());
  return generator;
}

void set_seed(uint64_t seed) { default_generator() = Generator(seed); }

Tensor uniform(const Shape& shape, const UniformOptions& options, Site site) {
  return default_generator().uniform(shape, options, site);
}
Tensor normal(const Shape& shape, const NormalOptions& options, Site site) {
  return default_generator().normal(shape, options, site);
}
Tensor truncated_normal(const Shape& shape, const NormalOptions& options, Site site) {
  return default_generator().truncated_normal(shape, options, site);
}
Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype, Site site) {
  return default_generator().randint(shape, low, high, dtype, site);
}
Tensor shuffle(const Tensor& x, Site site) { return default_generator().shuffle(x, site); }

}  // namespace cohort::random
