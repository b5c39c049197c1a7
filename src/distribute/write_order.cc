#include "distribute/write_order.h"

#include "base/raise.h"
#include "distribute/merge_point.h"
#include "ops/dispatch.h"

namespace cohort::internal {

void WriteOrder::begin(const void* run, size_t parts) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return parts_ == 0; });
  run_ = run;
  parts_ = parts;
}

void WriteOrder::begin_alone(const void* run, size_t parts) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] {
    // Replicas of this run may still be at its last write.
    if (parts_ == 0 || run_ == run || run_ == nullptr) return parts_ == 0;
    raise(Code::FailedPrecondition,
          "[run] two runs of one strategy write variables at the same time, and other workers may "
          "see them in another order; let one thread at a time call run()");
  });
  run_ = run;
  parts_ = parts;
}

void WriteOrder::end_part(const void* run) {
  {
    const std::lock_guard lock(mutex_);
    if (parts_ == 0 || run_ != run) return;  // end() has come before
    if (--parts_ > 0) return;
  }
  ended_.notify_all();
}

void WriteOrder::end(const void* run) {
  {
    const std::lock_guard lock(mutex_);
    if (parts_ == 0 || run_ != run) return;
    parts_ = 0;
  }
  ended_.notify_all();
}

ReplicaTurn::ReplicaTurn(ReplicaContext& replica, WriteOrder& order)
    : run_(replica.meeting()), first_(replica.local_replica() == 0) {
  const MergePoint* meeting = replica.meeting();
  if (meeting == nullptr || thread_dispatch().builder != nullptr) return;
  order_ = &order;
  if (!first_) return;
  const size_t parts = meeting->size();
  if (static_cast<size_t>(replica.num_replicas_in_sync()) > parts) {
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
