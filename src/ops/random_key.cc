#include "ops/kernel.h"
#include "ops/philox.h"
#include "ops/random_draw.h"
#include "ops/random_ops.h"
#include "ops/run_context.h"

namespace cohort::internal {
namespace {

uint64_t redrawn(uint64_t seed, uint64_t number, PhiloxSequence sequence) {
  return number == 0 ? seed : philox_half(philox(seed, number, sequence), 0);
}

}  // namespace

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
    .gradient = nullptr,
    .no_gradient_because = kDrawn,
    .traits = Trait::Random | Trait::HostOnly,
};

}  // namespace cohort::internal
