
#include "base/machine.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "cohort/random.h"
#include "kernels/philox.h"
#include "ops/dispatch.h"
#include "ops/random_ops.h"
#include "tensor/body.h"

namespace cohort::random {
namespace {

using internal::apply;
using internal::OpDef;
using internal::random_blocks;

// What a draw takes as its key: the numbers of now, or in a graph a node that changes them from run
// to run.
Tensor key_now(const Tensor& state, Site site) {
  if (internal::thread_dispatch().builder == nullptr) return state;
  return apply(
      internal::kRandomKey, {},
      {{"seed", state.at<int64_t>({0})}, {"counter", state.at<int64_t>({1})}, {"call", int64_t{0}}},
      site);
}

Tensor draw_normal(const OpDef& op, const Tensor& key, const Shape& shape,
                   const NormalOptions& options, Site site) {
  return apply(op, {key},
               {{"shape", shape},
                {"dtype", options.dtype},
                {"mean", options.mean},
                {"stddev", options.stddev}},
               site);
}

}  // namespace

Tensor Generator::uniform(const Shape& shape, const UniformOptions& options, Site site) {
  const Tensor values = apply(
      internal::kRandomUniform, {key_now(state(), site)},
      {{"shape", shape}, {"dtype", options.dtype}, {"low", options.low}, {"high", options.high}},
      site);
  counter_ += random_blocks(shape.num_elements(), options.dtype);
  return values;
}

Tensor Generator::normal(const Shape& shape, const NormalOptions& options, Site site) {
  const Tensor values =
      draw_normal(internal::kRandomNormal, key_now(state(), site), shape, options, site);
  counter_ += random_blocks(shape.num_elements(), options.dtype);
  return values;
}

Tensor Generator::truncated_normal(const Shape& shape, const NormalOptions& options, Site site) {
  const Tensor values =
      draw_normal(internal::kRandomTruncatedNormal, key_now(state(), site), shape, options, site);
  counter_ += random_blocks(shape.num_elements(), options.dtype);
  return values;
}

Tensor Generator::randint(const Shape& shape, int64_t low, int64_t high, DType dtype, Site site) {
  const Tensor values =
      apply(internal::kRandomInt, {key_now(state(), site)},
            {{"shape", shape}, {"dtype", dtype}, {"low", low}, {"high", high}}, site);
  counter_ += random_blocks(shape.num_elements(), dtype);
  return values;
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
