#include "runtime/graph_run.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <optional>

#include "base/raise.h"
#include "base/timeline.h"
#include "base/timers.h"
#include "runtime/thread_pool.h"
#include "tensor/body.h"
#include "tensor/devices.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxMessage = 4096;

// A run that is cancelled from outside ends every part with the same text, followed by the node
// that the part had reached.
bool is_same_cause(const Status& a, const Status& b) {
  return a.message.starts_with(b.message) || b.message.starts_with(a.message);
}

std::vector<NodeTiming> timings_of(const std::vector<StepTime>& steps, const std::string& device,
                                   Clock::time_point began) {
  std::vector<NodeTiming> timings;
  timings.reserve(steps.size());
  for (const StepTime& step : steps) {
    timings.push_back({.node = step.node->name,
                       .op = std::string(step.node->op->name),
                       .device = device,
                       .start = step.start - began,
                       .duration = step.end - step.start,
                       .output_bytes = step.output_bytes});
  }
  return timings;
}

}  // namespace

Status root_cause(const std::vector<Status>& outcomes) {
  Status cause;
  for (const Status& status : outcomes) {
    if (status.ok() || (!cause.ok() && !cause.derived && status.derived)) continue;
    if (cause.ok() || (cause.derived && !status.derived)) {
      cause = status;
    } else if (!is_same_cause(status, cause) && cause.message.size() < kMaxMessage) {
      cause.message += "; and: " + status.message;
    }
  }
  if (cause.message.size() > kMaxMessage) cause.message.resize(kMaxMessage);
  return cause;
}

// The run of the part on one device: the context of its kernels, and the edges that its plan sees.
class GraphRun::Part : public FunctionCaller, public Edges {
 public:
  Part(GraphRun& run, size_t index, const std::vector<Tensor>& feeds)
      : run_(run),
        index_(index),
        arrived_(run.plan_.arrivals.size()),
        steps_(*part().plan, at_positions(feeds, part().feeds), *this,
               {.times = run.keeps_timings_ || timeline_is_on() ? &times_ : nullptr,
                .edges = this,
                .settled = part().settled.get()}) {}

  const CompiledRun::Part& part() const { return run_.plan_.parts[index_]; }
  bool advance() {
    const DeviceGuard on(*part().device);
    return steps_.advance();
  }
  std::vector<Tensor> fetches() const { return steps_.fetches(); }
  const std::vector<StepTime>& times() const { return times_; }

  ResourceTable& resources() override { return run_.resources(index_); }
  Cancellation& cancellation() override { return *run_.cancellation_; }
  uint64_t run_number() override { return run_.run_number(); }

  void send(int64_t edge, const Tensor& value) override {
    const int place = place_of(edge);
    if (place == CompiledRun::kNone) return run_.send_away(index_, edge, value);
    const std::lock_guard lock(run_.mutex_);
    run_.add_arrived(place, value);
  }

  bool await(int64_t edge) override {
    const int place = place_of(edge);
    const bool has_arrived = arrived_[static_cast<size_t>(place)].defined() ||
                             run_.collect(index_, place, arrived_, IfMissing::Return);
    // This may send tensors, and the awaited tensor may arrive meanwhile. So the second look, which
    // marks the part as waiting, is made afterwards and under the lock.
    run_.before_taking(index_, has_arrived);
    return has_arrived || run_.collect(index_, place, arrived_, IfMissing::Stop);
  }

  Tensor take(int64_t edge) override {
    run_.cancellation_->check();
    Tensor taken = std::move(arrived_[static_cast<size_t>(place_of(edge))]);
    if (!taken.defined()) raise(Code::Internal, "[Graph] edge {} is taken twice", edge);
    return has_gpus() ? reachable_from(*part().device, taken) : taken;
  }

 private:
  int place_of(int64_t edge) const {
    const std::vector<int>& places = run_.plan_.arrival_places;
    if (edge >= 0 && static_cast<size_t>(edge) < places.size()) {
      return places[static_cast<size_t>(edge)];
    }
    raise(Code::InvalidArgument, "[Graph] edge {} does not exist", edge);
  }

  GraphRun& run_;
  const size_t index_;
  std::vector<Tensor> arrived_;  // and not taken yet; by place among the plan's arrivals
  std::vector<StepTime> times_;
  PlanRun steps_;
};

GraphRun::GraphRun(const CompiledRun& plan, std::shared_ptr<Cancellation> cancellation)
    : plan_(plan), cancellation_(std::move(cancellation)), incoming_(plan.parts.size()) {}
GraphRun::~GraphRun() = default;

void GraphRun::prepare(const std::vector<Tensor>& feeds, bool keeps_timings) {
  began_ = Clock::now();
  // A timeline shows the parts of each thread in a row: parts of two devices would overlap in one.
  quick_ = plan_.is_quick() && !timeline_is_on();
  keeps_timings_ = keeps_timings;
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    parts_.push_back(std::make_unique<Part>(*this, i, feeds));
  }
  const std::lock_guard lock(mutex_);
  running_ = parts_.size();
  statuses_.resize(parts_.size());
  timings_.resize(parts_.size());
  result_.fetches.resize(plan_.num_fetches);
}

void GraphRun::start(size_t first) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = first; i < plan_.parts.size(); ++i) make_ready(i);
  }
  drive();
}

void GraphRun::arrive(std::span<const int> places, std::vector<Tensor> tensors) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < places.size(); ++i) add_arrived(places[i], std::move(tensors[i]));
  }
  drive();
}

void GraphRun::add_arrived(int place, Tensor value) {
  const size_t part = plan_.arrivals[static_cast<size_t>(place)].part;
  Incoming& incoming = incoming_[part];
  incoming.fresh.emplace_back(place, std::move(value));
  if (incoming.awaited != place) return;
  incoming.awaited = CompiledRun::kNone;
  make_ready(part);
}

bool GraphRun::collect(size_t part, int place, std::vector<Tensor>& arrived, IfMissing if_missing) {
  const std::lock_guard lock(mutex_);
  Incoming& incoming = incoming_[part];
  for (auto& [where, value] : incoming.fresh) {
    arrived[static_cast<size_t>(where)] = std::move(value);
  }
  incoming.fresh.clear();
  // A part of a cancelled run does not wait: take() throws the reason.
  if (arrived[static_cast<size_t>(place)].defined() || cancellation_->cancelled()) return true;
  if (if_missing == IfMissing::Stop) {
    incoming.awaited = place;
    incoming.since = Clock::now();
  }
  return false;
}

std::vector<GraphRun::Missing> GraphRun::missing(Clock::time_point before) {
  std::vector<Missing> found;
  const std::lock_guard lock(mutex_);
  for (const Incoming& incoming : incoming_) {
    if (incoming.awaited == CompiledRun::kNone || incoming.since > before) continue;
    found.push_back({plan_.arrivals[static_cast<size_t>(incoming.awaited)], incoming.since});
  }
  return found;
}

void GraphRun::cancel(Status why) {
  cancellation_->cancel(std::move(why));
  resume_waiting();
}

void GraphRun::resume_waiting() {
  {
    const std::lock_guard lock(mutex_);
    for (size_t part = 0; part < incoming_.size(); ++part) {
      if (incoming_[part].awaited == CompiledRun::kNone) continue;
      incoming_[part].awaited = CompiledRun::kNone;
      make_ready(part);
    }
  }
  drive();
}

void GraphRun::make_ready(size_t part) {
  if (quick_) {
    ready_.push_back(part);
  } else {
    run_pool().submit([self = shared_from_this(), part] { self->run_part(part); });
  }
}

// One thread at a time runs the ready parts of a quick plan. A thread that finds another thread at
// work leaves the parts to that thread.
void GraphRun::drive() {
  std::unique_lock lock(mutex_);
  if (driving_ || ready_.empty()) return;
  // The last part ends the run, and its owner may let go of it before this loop is over.
  const std::shared_ptr<GraphRun> self = shared_from_this();
  driving_ = true;
  while (!ready_.empty()) {
    const size_t part = ready_.front();
    ready_.pop_front();
    lock.unlock();
    run_part(part);
    lock.lock();
  }
  driving_ = false;
}

void GraphRun::run_part(size_t index) {
  bool ended = false;
  const auto before = Clock::now();
  Status status = capture_status([&] {
    if (!parts_[index]->advance()) return;
    ended = true;
    std::unique_lock lock(mutex_);
    const bool is_last = running_ == 1;
    lock.unlock();
    before_end(index, is_last);
  });
  // From here on a part that stopped belongs to the thread that brings the missing tensor.
  const int64_t busy = (Clock::now() - before).count();
  {
    const std::lock_guard lock(mutex_);
    busy_ns_ += busy;
  }
  if (ended || !status.ok()) part_ended(index, std::move(status));
}

void GraphRun::part_ended(size_t index, Status status) {
  if (!status.ok()) {
    // The other parts fail because of this one. root_cause() leaves their errors out.
    Status consequence = status;
    consequence.derived = true;
    cancel(std::move(consequence));
  }
  // The part releases its values before the run ends. Otherwise the next run would have to copy a
  // value whose variable it changes.
  std::unique_ptr<Part> ended = std::move(parts_[index]);
  std::vector<Tensor> fetched;
  if (status.ok()) fetched = ended->fetches();
  std::vector<NodeTiming> timings;
  const CompiledRun::Part& part = ended->part();
  if (keeps_timings_) timings = timings_of(ended->times(), part.device_name, began_);
  if (timeline_is_on()) add_to_timeline(ended->times(), part.device_name);
  ended.reset();
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < fetched.size(); ++i) {
      result_.fetches[part.fetches[i]] = std::move(fetched[i]);
    }
    timings_[index] = std::move(timings);
    statuses_[index] = std::move(status);
    last = --running_ == 0;
  }
  if (last) finish();
}

void GraphRun::finish() {
  RunResult result;
  {
    const std::lock_guard lock(mutex_);
    result = std::move(result_);
    result.status = root_cause(statuses_);
    for (std::vector<NodeTiming>& timings : timings_) {
      std::ranges::move(timings, std::back_inserter(result.timings));
    }
    // A failed run has computed less, and would make the plan look quick.
    if (result.status.ok()) plan_.cost_ns.store(busy_ns_, std::memory_order_relaxed);
  }
  if (!result.status.ok()) result.fetches.clear();
  finished(std::move(result));
}

void GraphRun::send_away(size_t /*part*/, int64_t edge, const Tensor& /*value*/) {
  raise(Code::Internal, "[Graph] no part takes the tensor of edge {}", edge);
}

namespace {

// A run of several parts that are all in this process; one thread waits for the end.
class LocalRun : public GraphRun {
 public:
  LocalRun(const CompiledRun& plan, const RunSetting& setting)
      : GraphRun(plan, setting.cancellation),
        number_(setting.numbered_runs),
        tables_(plan.parts.size()) {}

  RunResult run(const std::vector<Tensor>& values, const RunSetting& setting) {
    const Cancellation::Listener listener(*setting.cancellation, [this] { resume_waiting(); });
    prepare(values, setting.metadata != nullptr);
    // This thread would only wait, so it runs the first part itself, which saves waking a thread.
    const size_t own = is_quick() ? 0 : 1;  // parts that run here before this thread waits
    start(own);
    if (own > 0) run_part(0);
    std::unique_lock lock(end_mutex_);
    over_.wait(lock, [&] { return end_.has_value(); });
    return *std::move(end_);
  }

 private:
  ResourceTable& resources(size_t part) override {
    ResourceTable* const table = plan().parts[part].table;
    return table != nullptr ? *table : tables_[part];
  }
  uint64_t run_number() override { return number_.get(); }
  void finished(RunResult result) override {
    const std::lock_guard lock(end_mutex_);
    end_ = std::move(result);
    over_.notify_all();
  }

  RunNumber number_;
  std::vector<ResourceTable> tables_;  // of parts whose named state ends with the run
  std::mutex end_mutex_;
  std::condition_variable over_;
  std::optional<RunResult> end_;  // guarded by end_mutex_
};

RunResult run_one_part(const CompiledRun::Part& part, const std::vector<Tensor>& values,
                       const RunSetting& setting) {
  const bool is_traced = setting.metadata != nullptr;
  const auto began = is_traced ? Clock::now() : Clock::time_point();
  std::vector<StepTime> times;
  RunResult result;
  result.status = capture_status([&] {
    const DeviceGuard on(*part.device);
    ResourceTable own;  // where named state ends with the run
    CallContext context(part.table != nullptr ? part.table : &own, *setting.cancellation,
                        setting.numbered_runs);
    result.fetches = run_plan(
        *part.plan, at_positions(values, part.feeds), context,
        {.times = is_traced || timeline_is_on() ? &times : nullptr, .settled = part.settled.get()});
  });
  if (!result.status.ok()) result.status = root_cause({result.status});
  if (is_traced) result.timings = timings_of(times, part.device_name, began);
  if (timeline_is_on()) add_to_timeline(times, part.device_name);
  return result;
}

}  // namespace

std::vector<Tensor> run_parts(const CompiledRun& run, const std::vector<Tensor>& values,
                              const RunSetting& setting) {
  if (run.parts.empty()) return {};  // nothing is fetched
  Timers timer;
  if (setting.limit.count() > 0) {
    timer.at(Clock::now() + setting.limit, [&setting] {
      setting.cancellation->cancel(
          {.code = Code::DeadlineExceeded,
           .message =
               fmt::format("[Session] the run took longer than {} ms", setting.limit.count())});
    });
  }
  RunResult result = run.parts.size() == 1
                         ? run_one_part(run.parts[0], values, setting)
                         : std::make_shared<LocalRun>(run, setting)->run(values, setting);
  throw_if_error(result.status);
  if (setting.metadata != nullptr) setting.metadata->nodes = std::move(result.timings);
  return std::move(result.fetches);
}

}  // namespace cohort::internal
