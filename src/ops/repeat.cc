#include <algorithm>

#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/movable.h"
#include "ops/rows.h"

namespace cohort::internal {
namespace {

// The number of each row, as often as `counts` says. Throws InvalidArgument for a negative count.
at::Tensor repeated_numbers(const at::Tensor& counts) {
  const at::Tensor wanted = counts.to(at::kLong).contiguous();
  const int64_t* count = wanted.data_ptr<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    require_size("Repeat", count[i], "a number of repetitions");
    total = checked_add("Repeat", total, count[i]);
  }
  require_allocatable("Repeat", Shape{total}, kInt64);
  at::Tensor numbers = at::empty({total}, at::kLong);
  int64_t* next = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < wanted.numel(); ++i) next = std::fill_n(next, count[i], i);
  return numbers;
}

}  // namespace

// Row i of input 0 as often as element i of input 1 says: none, one or several times. How many rows
// there are is known only when it runs.
extern constexpr OpDef kRepeat{
    .name = "Repeat",
    .inputs = 2,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the numbers of repetitions");
      require_rank(inputs.op, inputs.shape(1), 1, "the numbers of repetitions");
      const Shape& x = inputs.shape(0);
      if (!x.has_rank()) return {{inputs.dtype(0), x}};
      require_rank_at_least(inputs.op, x, 1, "the input");
      if (inputs.shape(1).has_rank()) {
        require_compatible(inputs.op, inputs.shape(1), {x[0]}, "the numbers of repetitions");
      }
      return {{inputs.dtype(0), x.with(0, Shape::kUnknownDim)}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x = movable(k.inputs[0]);
          const at::Tensor rows = repeated_numbers(in(k, 1));
          const Shape row_shape = body(k.inputs[0]).shape;
          require_allocatable("Repeat", row_shape.with(0, rows.numel()), k.inputs[0].dtype());
          k.outputs[0] = from_moved(k.inputs[0], take_rows(x, 0, rows));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const Tensor& counts = call.inputs[1];
      const Tensor numbers = cumsum(ones_like(counts)) - 1;
      const Tensor rows = apply(kRepeat, {numbers, counts}, {});
      return {apply(kGatherGrad, {g[0], rows, call.inputs[0]}, {{"axis", int64_t{0}}}), {}};
    },
};

}  // namespace cohort::internal
