#include "distribute/write_order.h"

#include "base/raise.h"
#include "distribute/merge_point.h"
#include "ops/dispatch.h"

namespace cohort::internal {

bool WriteOrder::try_begin(const void* run, uint32_t parts) {
  uint32_t nobody = 0;
  if (!writing_.compare_exchange_strong(nobody, parts)) return false;
  run_ = run;
  return true;
}

void WriteOrder::begin(const void* run, uint32_t parts) {
  while (!try_begin(run, parts)) {
    if (const uint32_t now = writing_.load(); now != 0) writing_.wait(now);
  }
}

void WriteOrder::begin_alone(const void* run, uint32_t parts) {
  while (!try_begin(run, parts)) {
    const uint32_t now = writing_.load();
    if (now == 0) continue;
    // Replicas of this run may still be at its last write.
    if (const void* other = run_.load(); other != nullptr && other != run) {
      raise(Code::FailedPrecondition,
            "[run] two runs of one strategy write variables at the same time, and other workers "
            "may see them in another order; let one thread at a time call run()");
    }
    writing_.wait(now);
  }
}

void WriteOrder::end_part(const void* run) {
  if (run_.load() != run) return;  // end() has come before
  uint32_t left = writing_.load();
  while (left != 0 && !writing_.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) writing_.notify_all();
}

void WriteOrder::end(const void* run) {
  if (writing_.load() == 0 || run_.load() != run) return;
  writing_ = 0;
  writing_.notify_all();
}

ReplicaTurn::ReplicaTurn(ReplicaContext& replica, WriteOrder& order)
    : run_(replica.meeting()), first_(replica.local_replica() == 0) {
  const MergePoint* meeting = replica.meeting();
  if (meeting == nullptr || thread_dispatch().builder != nullptr) return;
  order_ = &order;
  if (!first_) return;
  const auto parts = static_cast<uint32_t>(meeting->size());
  if (static_cast<uint32_t>(replica.num_replicas_in_sync()) > parts) {
    order.begin_alone(run_, parts);  // who waits could wait for a worker that waits for this one
  } else {
    order.begin(run_, parts);
  }
}

ReplicaTurn::~ReplicaTurn() {
  if (order_ == nullptr) return;
  if (met_) {
    order_->end_part(run_);
  } else if (first_) {
    order_->end(run_);  // something went wrong, and no replica writes
  }
}

}  // namespace cohort::internal
