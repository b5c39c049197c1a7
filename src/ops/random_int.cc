// Random integers and orders.

#include <limits>

#include "base/raise.h"
#include "ops/random_draw.h"
#include "ops/random_ops.h"
#include "tensor/visit.h"

namespace cohort::internal {
namespace {

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
  fill_stretches<int64_t>(key, out, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t drawn = bounded(key, first + i, word_at<int64_t>(words, i), bound);
      values[first + i] = static_cast<int64_t>(low + drawn);
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

extern constexpr OpDef kRandomInt{
    .name = "RandomInt",
    .inputs = 1,
    .dtypes = kKeyType,
    .attrs = {{"shape", AttrKind::Shape},
              {"dtype", AttrKind::DType},
              {"low", AttrKind::Int},
              {"high", AttrKind::Int}},
    .infer = infer_int,
    .compute = compute_int,
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random,
};

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
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random,
};

}  // namespace cohort::internal
