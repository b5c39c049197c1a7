#include "cluster/worker_step.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "base/timeline.h"

namespace cohort::internal {
namespace {

// Tensors of that many bytes, or that old, go at once: waiting longer saves less than a message
// costs.
constexpr int64_t kManyBytes = int64_t{1} << 20;
constexpr auto kOldAge = std::chrono::microseconds(300);
// Enough for a message where a part turns from sending to taking.
constexpr int64_t kSomeBytes = int64_t{64} << 10;

int64_t bytes_of(const Tensor& tensor) {
  return tensor.dtype() == kString ? 64 * tensor.size() : tensor.size() * size_of(tensor.dtype());
}

}  // namespace

WorkerStep::WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id)
    : GraphRun(*plan, std::make_shared<Cancellation>()), plan_(std::move(plan)), id_(id) {}

void WorkerStep::start(RunPlan run, Finished finished) {
  if (run.feeds.size() != plan_->num_feeds) {
    raise(Code::InvalidArgument, "[Cluster] the plan takes {} feeds, got {}", plan_->num_feeds,
          run.feeds.size());
  }
  run_ = std::move(run);
  finished_ = std::move(finished);
  for (size_t i = 0; i < plan_->parts.size(); ++i) outboxes_.emplace_back(plan_->peers.size());
  prepare(run_.feeds, run_.trace);
  GraphRun::start();
}

void WorkerStep::arrive(StepTensors tensors) {
  std::vector<int> places;
  places.reserve(tensors.edges.size());
  for (size_t i = 0; i < tensors.edges.size(); ++i) {
    places.push_back(checked_place(tensors.edges[i], tensors.tensors[i]));
  }
  if (tensors.charge) {
    const std::lock_guard lock(mutex_);
    charges_.push_back(std::move(tensors.charge));
  }
  GraphRun::arrive(places, std::move(tensors.tensors));
}

int WorkerStep::checked_place(uint64_t edge, const Tensor& tensor) const {
  const int place = edge < plan_->arrival_places.size()
                        ? plan_->arrival_places[static_cast<size_t>(edge)]
                        : WorkerPlan::kNone;
  if (place == WorkerPlan::kNone) raise(Code::InvalidArgument, "[Cluster] no edge {}", edge);
  const WorkerPlan::Arrival& expected = plan_->arrivals[static_cast<size_t>(place)];
  if (!tensor.defined() || tensor.dtype() != expected.dtype ||
      !tensor.shape().is_compatible_with(expected.shape)) {
    raise(Code::InvalidArgument, "[Cluster] edge {} carries {} {}, but something else arrived",
          edge, to_string(expected.dtype), expected.shape.to_string());
  }
  return place;
}

std::vector<LongWait> WorkerStep::waits(std::chrono::steady_clock::time_point before) {
  std::vector<LongWait> found;
  for (const Missing& missing : GraphRun::missing(before)) {
    found.push_back(
        {.kind = WaitKind::Tensor,
         .what = fmt::format("step {} of a session, tensor '{}'", id_, missing.arrival.tensor),
         .whom = {missing.arrival.sender},
         .since = missing.since});
  }
  return found;
}

void WorkerStep::run_part(size_t part) {
  const TimelineSpan span("step", timeline_is_on() ? fmt::format("run {}", id_) : "");
  GraphRun::run_part(part);
}

void WorkerStep::send_away(size_t part, int64_t edge, const Tensor& value) {
  const auto peer = static_cast<size_t>(plan_->destinations[static_cast<size_t>(edge)]);
  Outbox& outbox = outboxes_[part][peer];
  outbox.tensors.edges.push_back(static_cast<uint64_t>(edge));
  outbox.tensors.tensors.push_back(value);
  outbox.bytes += bytes_of(value);
  if (outbox.bytes >= kManyBytes || is_old(outbox)) flush(peer, outbox);
}

bool WorkerStep::is_old(Outbox& outbox) {
  constexpr size_t kLooksAtClock = 16;  // tensors from one look to the next
  const size_t count = outbox.tensors.edges.size();
  if (count % kLooksAtClock != 1) return false;
  const auto now = std::chrono::steady_clock::now();
  if (count == 1) outbox.since = now;
  return now - outbox.since > kOldAge;
}

// A part that has to wait for a tensor first sends everything that it has gathered, because the
// peer that sends the tensor may be waiting for that. If the tensor has arrived, the part sends
// large outboxes only: other peers may be waiting for them. Besides, a variable copies its value at
// the next change while an outbox still holds the value.
void WorkerStep::before_taking(size_t part, bool has_arrived) {
  for (size_t peer = 0; peer < plan_->peers.size(); ++peer) {
    Outbox& outbox = outboxes_[part][peer];
    if (!has_arrived || outbox.bytes >= kSomeBytes) flush(peer, outbox);
  }
}

void WorkerStep::before_end(size_t part, bool is_last) {
  for (size_t peer = 0; peer < plan_->peers.size(); ++peer) {
    Outbox& outbox = outboxes_[part][peer];
    if (is_last && static_cast<int>(peer) == plan_->master) {
      last_tensors_ = take(outbox);
    } else {
      flush(peer, outbox);
    }
  }
}

void WorkerStep::flush(size_t peer, Outbox& outbox) {
  if (outbox.tensors.edges.empty()) return;
  Link& link = *plan_->peers[peer];
  if (link.ended()) raise(Code::Unavailable, "[Cluster] task {} is lost", link.peer().name);
  link.post(encode(take(outbox)));
}

StepTensors WorkerStep::take(Outbox& outbox) const {
  StepTensors taken = std::exchange(outbox, {}).tensors;
  taken.session = plan_->session;
  taken.plan = plan_->id;
  taken.step = id_;
  return taken;
}

void WorkerStep::finished(RunResult result) {
  PlanDone done{.session = plan_->session,
                .step = id_,
                .status = std::move(result.status),
                .fetches = std::move(result.fetches),
                .timings = std::move(result.timings)};
  if (done.status.ok()) done.last_tensors = std::move(last_tensors_);
  {
    const std::lock_guard lock(mutex_);
    run_.charge.reset();  // the peer that hears of the end may begin the next step at once
    charges_.clear();
  }
  finished_(std::move(done));
}

}  // namespace cohort::internal
