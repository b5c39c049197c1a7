#include "cohort/ops.h"
#include "graph/handles.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/fifo_queue.h"
#include "ops/spec_list.h"
#include "train_loop/sync_membership.h"

namespace cohort::internal {
namespace {

FifoQueue numbers_queue(const std::string& name) {
  return FifoQueue({.dtypes = {kInt64}, .shapes = {{}}, .name = name, .shared_name = name});
}

// Of the queue that numbers_queue makes.
Tensor handle_of_queue(const std::string& name) {
  const Spec number{kInt64, Shape{}};
  return add_handle(kQueueHandle, name, name,
                    {{"capacity", QueueState::kNoLimit}, {"components", pack_specs({&number, 1})}},
                    {})
      .handle;
}

}  // namespace

SyncMembership::Presence SyncMembership::presence_of(int worker) const {
  const Colocation together(anchor_);
  const std::string place = name_ + "/present/" + std::to_string(worker);
  const std::string arrived = name_ + "/arrived/" + std::to_string(worker);
  const Tensor hold =
      apply(kHoldPresence,
            {handle_of_queue(place), handle_of(absent_), handle_of_queue(changes_.name()),
             handle_of_queue(arrived), Tensor(int64_t{worker})},
            {});
  return {.hold = hold,
          .held = numbers_queue(arrived).dequeue()[0],
          .release = numbers_queue(place).enqueue({Tensor(int64_t{0})})};
}

}  // namespace cohort::internal
