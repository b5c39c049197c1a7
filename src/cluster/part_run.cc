#include "cluster/part_run.h"

#include "base/raise.h"
#include "base/timeline.h"
#include "cluster/worker_step.h"

namespace cohort::internal {
namespace {

// What a message costs is worth that much more waiting.
constexpr int64_t kMuch = int64_t{1} << 20;
constexpr auto kOld = std::chrono::microseconds(300);
// Enough for a message of its own where a part turns from sending to receiving.
constexpr int64_t kSome = int64_t{64} << 10;

std::vector<Tensor> feeds_of(const WorkerPlan::Part& part, const std::vector<Tensor>& given) {
  std::vector<Tensor> feeds;
  feeds.reserve(part.feeds.size());
  for (const size_t position : part.feeds) feeds.push_back(given[position]);
  return feeds;
}

int64_t bytes_of(const Tensor& tensor) {
  return tensor.dtype() == kString ? 64 * tensor.size() : tensor.size() * size_of(tensor.dtype());
}

}  // namespace

PartRun::PartRun(WorkerStep& step, int index)
    : step_(step),
      index_(index),
      part_(step.plan().parts[static_cast<size_t>(index)]),
      outboxes_(step.plan().peers.size()),
      arrived_(step.plan().arrivals.size()),
      run_(*part_.plan, feeds_of(part_, step.run_.feeds), *this,
           {.times = step.run_.trace || timeline_is_on() ? &times_ : nullptr,
            .arrivals = this,
            .settled = part_.settled.get()}) {}

ResourceTable& PartRun::resources() { return *part_.table; }
Cancellation& PartRun::cancellation() { return step_.cancellation_; }
uint64_t PartRun::run_number() { return step_.run_.number; }

void PartRun::send(int64_t edge, const Tensor& value) {
  const int peer = step_.plan().destinations[static_cast<size_t>(edge)];
  if (peer == WorkerPlan::kNone) {
    step_.put(edge, value);
    return;
  }
  Outbox& outbox = outboxes_[static_cast<size_t>(peer)];
  outbox.tensors.edges.push_back(static_cast<uint64_t>(edge));
  outbox.tensors.tensors.push_back(value);
  outbox.bytes += bytes_of(value);
  if (outbox.bytes >= kMuch || is_old(outbox)) flush(static_cast<size_t>(peer));
}

bool PartRun::is_old(Outbox& outbox) {
  constexpr size_t kLooksAtClock = 16;  // once for so many tensors
  const size_t count = outbox.tensors.edges.size();
  if (count % kLooksAtClock != 1) return false;
  const auto now = std::chrono::steady_clock::now();
  if (count == 1) outbox.since = now;
  return now - outbox.since > kOld;
}

void PartRun::flush() {
  for (size_t peer = 0; peer < outboxes_.size(); ++peer) flush(peer);
}

StepTensors PartRun::flush_last() {
  StepTensors last;
  for (size_t peer = 0; peer < outboxes_.size(); ++peer) {
    if (static_cast<int>(peer) == step_.plan().master) {
      last = take(peer);
    } else {
      flush(peer);
    }
  }
  return last;
}

void PartRun::flush(size_t peer) {
  if (outboxes_[peer].tensors.edges.empty()) return;
  Link& link = *step_.plan().peers[peer];
  if (link.ended()) raise(Code::Unavailable, "[Cluster] task {} is lost", link.peer().name);
  link.post(encode(take(peer)));
}

StepTensors PartRun::take(size_t peer) {
  StepTensors taken = std::exchange(outboxes_[peer], {}).tensors;
  taken.session = step_.plan().session;
  taken.plan = step_.plan().id;
  taken.step = step_.id();
  return taken;
}

bool PartRun::await(int64_t edge) {
  using IfMissing = WorkerStep::IfMissing;
  const int place = step_.plan().arrival_places[static_cast<size_t>(edge)];
  const bool is_there = arrived_[static_cast<size_t>(place)].defined() ||
                        step_.collect(index_, place, arrived_, IfMissing::Return);
  // Those who are to send it may be waiting for this. When it is there, others may be; and what was
  // read from a variable and is still held here would be copied when the variable changes.
  for (size_t peer = 0; peer < outboxes_.size(); ++peer) {
    if (!is_there || outboxes_[peer].bytes >= kSome) flush(peer);
  }
  return is_there || step_.collect(index_, place, arrived_, IfMissing::Stop);
}

Tensor PartRun::receive(int64_t edge, Cancellation& cancellation) {
  cancellation.check();
  const int place = step_.plan().arrival_places[static_cast<size_t>(edge)];
  Tensor taken = std::move(arrived_[static_cast<size_t>(place)]);
  if (!taken.defined()) raise(Code::Internal, "[Cluster] edge {} is taken twice", edge);
  return taken;
}

}  // namespace cohort::internal
