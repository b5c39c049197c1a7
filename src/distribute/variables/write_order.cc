#include "distribute/variables/write_order.h"

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// A call outside of replicas that must not wait; see begin_alone().
class LoneCall {
 public:
  explicit LoneCall(WriteOrder& order) : order_(order) { order.begin_alone(this, 1); }
  ~LoneCall() { order_.end(this); }
  LoneCall(const LoneCall&) = delete;
  LoneCall& operator=(const LoneCall&) = delete;

 private:
  WriteOrder& order_;
};

}  // namespace

void WriteOrder::note(bool spans_workers) {
  if (spans_workers) spans_workers_ = true;
  SettingsScope::note(shared_from_this());
}

std::shared_ptr<void> WriteOrder::enter(bool may_wait) {
  if (update_index()) return nullptr;  // the update around this call has it
  std::shared_ptr<void> turn = begin_call();
  const std::lock_guard lock(mutex_);
  writer_may_wait_ = writer_may_wait_ || (may_wait && parts_ > 0);
  return turn;
}

// The replicas meet first: until then one of them may wait for another thread that writes.
std::shared_ptr<void> WriteOrder::begin_call() {
  ReplicaContext* const replica = get_replica_context();
  ReplicaRendezvous* const rendezvous = replica != nullptr ? Access::rendezvous(*replica) : nullptr;
  if (rendezvous == nullptr) {
    if (spans_workers_) return std::make_shared<LoneCall>(*this);
    return std::make_shared<WritersTurn>(*this);
  }
  auto turn = std::make_shared<ReplicaTurn>(*replica, *this);
  rendezvous->meet(replica->local_replica(),
                   {"a traced function that writes variables", 0, nullptr}, nullptr, nullptr);
  turn->all_met();
  return turn;
}

void WriteOrder::unlock() {
  if (!is_tracing()) end(nullptr, 1);
}

// The writer may wait for something that this thread would do next. For most writers that cannot be
// told from a long call, so the log says what both wait for.
template <typename Condition>
void WriteOrder::wait_until(std::unique_lock<std::mutex>& lock, const Condition& may_write) {
  if (may_write() || clock_.wait_for(ended_, lock, kQuietWait, may_write)) return;
  log_warning(
      "[Variable] a write has waited {} s for another thread that writes variables of the same "
      "strategy; code that writes them, or a traced function that does, must not wait for another "
      "thread that writes them",
      kQuietWait.count());
  while (!clock_.wait_for(ended_, lock, kMaxWait, may_write)) {
    if (!writer_may_wait_) continue;
    raise(Code::FailedPrecondition,
          "[Variable] a write has waited {} s for a traced function that writes variables of the "
          "same strategy and waits for data or runs native code; let what the function waits for "
          "not depend on this write, or call the function untraced",
          (kQuietWait + kMaxWait).count());
  }
}

void WriteOrder::lock() {
  if (is_tracing()) return note();
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return parts_ == 0; });
  run_ = nullptr;
  parts_ = 1;
}

void WriteOrder::join(const void* run, size_t parts) {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return parts_ == 0 || run_ == run; });
  if (parts_ > 0) return;  // another replica was here before
  run_ = run;
  parts_ = parts;
}

void WriteOrder::begin_alone(const void* run, size_t parts) {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] {
    // Replicas of this run may still be at its last write.
    if (parts_ == 0 || run_ == run || run_ == nullptr) return parts_ == 0;
    raise(Code::FailedPrecondition,
          "[run] two runs of one strategy write variables at the same time, and other workers may "
          "see them in another order; let one thread at a time call run()");
  });
  run_ = run;
  parts_ = parts;
}

void WriteOrder::end(const void* run, size_t parts) {
  {
    const std::lock_guard lock(mutex_);
    if (parts_ == 0 || run_ != run) return;  // another call has ended all parts
    parts_ -= std::min(parts, parts_);
    if (parts_ > 0) return;
    writer_may_wait_ = false;
  }
  ended_.notify_all();
}

ReplicaTurn::ReplicaTurn(ReplicaContext& replica, WriteOrder& order)
    : run_(Access::rendezvous(replica)), first_(replica.local_replica() == 0) {
  const ReplicaRendezvous* rendezvous = Access::rendezvous(replica);
  if (rendezvous == nullptr) return;
  parts_ = rendezvous->size();
  spans_workers_ = static_cast<size_t>(replica.num_replicas_in_sync()) > parts_;
  if (thread_dispatch().builder != nullptr) {
    if (is_tracing()) order.note(spans_workers_);
    return;
  }
  order_ = &order;
  // Waiting here could mean to wait for a worker that waits for this worker.
  if (spans_workers_ && first_) order.begin_alone(run_, parts_);
}

void ReplicaTurn::all_met() {
  if (order_ == nullptr) return;
  if (!spans_workers_) order_->join(run_, parts_);
  met_ = true;
}

ReplicaTurn::~ReplicaTurn() {
  if (order_ == nullptr) return;
  if (met_) {
    order_->end(run_, 1);
  } else if (spans_workers_ && first_) {
    order_->end(run_);  // something went wrong, and no replica writes
  }
}

}  // namespace cohort::internal
