#include "cluster/worker_step.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "base/timeline.h"
#include "runtime/node_spans.h"
#include "runtime/outcome.h"
#include "runtime/worker_pool.h"
#include "tensor/device_guard.h"

namespace cohort::internal {

WorkerStep::WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id)
    : plan_(std::move(plan)), id_(id), incoming_(plan_->parts.size()) {}

void WorkerStep::start(RunPlan run, Finished finished) {
  if (run.feeds.size() != plan_->num_feeds) {
    raise(Code::InvalidArgument, "[Cluster] the plan takes {} feeds, got {}", plan_->num_feeds,
          run.feeds.size());
  }
  run_ = std::move(run);
  finished_ = std::move(finished);
  quick_ = plan_->is_quick();
  start_ = std::chrono::steady_clock::now();
  const int count = static_cast<int>(plan_->parts.size());
  for (int i = 0; i < count; ++i) parts_.push_back(std::make_unique<PartRun>(*this, i));
  {
    const std::lock_guard lock(mutex_);
    done_.session = plan_->session;
    done_.step = id_;
    done_.fetches.resize(plan_->num_fetches);
    statuses_.resize(parts_.size());
    running_ = parts_.size();
    for (int i = 0; i < count; ++i) make_ready(i);
  }
  drive();
}

void WorkerStep::arrive(StepTensors tensors) {
  std::vector<int> places;
  places.reserve(tensors.edges.size());
  for (size_t i = 0; i < tensors.edges.size(); ++i) {
    places.push_back(checked_place(tensors.edges[i], tensors.tensors[i]));
  }
  {
    const std::lock_guard lock(mutex_);
    if (tensors.charge) charges_.push_back(std::move(tensors.charge));
    for (size_t i = 0; i < places.size(); ++i) {
      add_fresh(places[i], std::move(tensors.tensors[i]));
    }
  }
  drive();
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

void WorkerStep::put(int64_t edge, const Tensor& value) {
  const std::lock_guard lock(mutex_);
  add_fresh(plan_->arrival_places[static_cast<size_t>(edge)], value);
}

void WorkerStep::add_fresh(int place, Tensor value) {
  const int part = plan_->arrivals[static_cast<size_t>(place)].part;
  Incoming& incoming = incoming_[static_cast<size_t>(part)];
  incoming.fresh.emplace_back(place, std::move(value));
  if (incoming.awaited != place) return;
  incoming.awaited = WorkerPlan::kNone;
  make_ready(part);
}

bool WorkerStep::collect(int part, int place, std::vector<Tensor>& arrived, IfMissing if_missing) {
  const std::lock_guard lock(mutex_);
  Incoming& incoming = incoming_[static_cast<size_t>(part)];
  for (auto& [where, value] : incoming.fresh) {
    arrived[static_cast<size_t>(where)] = std::move(value);
  }
  incoming.fresh.clear();
  if (arrived[static_cast<size_t>(place)].defined() || cancellation_.cancelled()) return true;
  if (if_missing == IfMissing::Stop) {
    incoming.awaited = place;
    incoming.since = std::chrono::steady_clock::now();
  }
  return false;
}

std::vector<LongWait> WorkerStep::waits(std::chrono::steady_clock::time_point before) {
  std::vector<LongWait> found;
  const std::lock_guard lock(mutex_);
  for (const Incoming& incoming : incoming_) {
    if (incoming.awaited == WorkerPlan::kNone || incoming.since > before) continue;
    const WorkerPlan::Arrival& missing = plan_->arrivals[static_cast<size_t>(incoming.awaited)];
    found.push_back({.kind = WaitKind::Tensor,
                     .what = fmt::format("step {} of a session, tensor '{}'", id_, missing.tensor),
                     .whom = {missing.sender},
                     .since = incoming.since});
  }
  return found;
}

void WorkerStep::cancel(Status why) {
  cancellation_.cancel(std::move(why));
  {
    const std::lock_guard lock(mutex_);
    for (size_t part = 0; part < incoming_.size(); ++part) {
      if (incoming_[part].awaited == WorkerPlan::kNone) continue;
      incoming_[part].awaited = WorkerPlan::kNone;
      make_ready(static_cast<int>(part));
    }
  }
  drive();
}

void WorkerStep::make_ready(int part) {
  if (quick_) {
    ready_.push_back(part);
  } else {
    run_pool().submit([self = shared_from_this(), part] { self->run_part(part); });
  }
}

// One thread at a time runs what is ready of a quick plan. Who finds another one at it leaves.
void WorkerStep::drive() {
  std::unique_lock lock(mutex_);
  if (driving_) return;
  const std::shared_ptr<WorkerStep> self = shared_from_this();
  driving_ = true;
  while (!ready_.empty()) {
    const int part = ready_.front();
    ready_.pop_front();
    lock.unlock();
    run_part(part);
    lock.lock();
  }
  driving_ = false;
}

void WorkerStep::run_part(int part) {
  PartRun& run = *parts_[static_cast<size_t>(part)];
  bool ended = false;
  const TimelineSpan span("step", timeline_is_on() ? fmt::format("run {}", id_) : "");
  const auto before = std::chrono::steady_clock::now();
  Status status = capture_status([&] {
    const DeviceGuard on(*plan_->parts[static_cast<size_t>(part)].device);
    ended = run.advance();
    if (ended) flush_at_end(run);
  });
  // A part that stopped belongs to the thread that brings what it waits for.
  const int64_t busy = (std::chrono::steady_clock::now() - before).count();
  {
    const std::lock_guard lock(mutex_);
    busy_ns_ += busy;
  }
  if (ended || !status.ok()) part_ended(part, std::move(status));
}

void WorkerStep::flush_at_end(PartRun& run) {
  std::unique_lock lock(mutex_);
  const bool last = running_ == 1;
  lock.unlock();
  if (!last) return run.flush();  // the others may be waiting for what comes of it
  StepTensors tensors = run.flush_last();
  lock.lock();
  done_.last_tensors = std::move(tensors);
}

void WorkerStep::part_ended(int part, Status status) {
  if (!status.ok()) {
    Status consequence = status;
    consequence.derived = true;
    cancel(std::move(consequence));
  }
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    const WorkerPlan::Part& made = plan_->parts[static_cast<size_t>(part)];
    const PartRun& run = *parts_[static_cast<size_t>(part)];
    if (status.ok()) {
      const std::vector<Tensor> fetched = run.fetches();
      for (size_t i = 0; i < fetched.size(); ++i) done_.fetches[made.fetches[i]] = fetched[i];
    }
    if (timeline_is_on()) add_nodes_to_timeline(run.times(), made.told_device);
    for (const StepTime& time : run.times()) {
      if (!run_.trace) break;
      done_.timings.push_back({.node = time.node->name,
                               .op = std::string(time.node->op->name),
                               .device = made.told_device,
                               .start = time.start - start_,
                               .duration = time.end - time.start,
                               .output_bytes = time.output_bytes});
    }
    statuses_[static_cast<size_t>(part)] = std::move(status);
    last = --running_ == 0;
  }
  if (last) finish();
}

void WorkerStep::finish() {
  PlanDone done;
  {
    const std::lock_guard lock(mutex_);
    done = std::move(done_);
    done.status = root_cause(statuses_);
    if (done.status.ok()) plan_->cost_ns.store(busy_ns_, std::memory_order_relaxed);
    run_.charge.reset();  // who hears the end may begin the next step at once
    charges_.clear();
  }
  if (!done.status.ok()) {
    done.fetches.clear();
    done.last_tensors = {};
  }
  finished_(std::move(done));
}

}  // namespace cohort::internal
