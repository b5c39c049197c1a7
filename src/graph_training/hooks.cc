#include "cohort/hooks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/log.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "graph_training/every_timer.h"
#include "tensor/print.h"

namespace cohort {
namespace internal {
namespace {

const Every& checked(std::string_view hook, const Every& every) {
  if (every.steps.has_value() == every.time.has_value()) {
    raise(Code::InvalidArgument, "[{}] exactly one of .steps and .time must be given, got {}", hook,
          every.steps ? "both" : "none");
  }
  if (every.steps && *every.steps <= 0) {
    raise(Code::InvalidArgument, "[{}] the interval must be positive, got {} steps", hook,
          *every.steps);
  }
  if (every.time && every.time->count() < 0) {
    raise(Code::InvalidArgument, "[{}] the interval must not be negative, got {} ms", hook,
          every.time->count());
  }
  return every;
}

// A node that reads the global step of the graph being built.
Tensor read_global_step(std::string_view hook) {
  const LibraryCode here;
  const std::optional<Variable> step = find_global_step();
  if (step) return step->read_value({});
  raise(Code::FailedPrecondition,
        "[{}] the graph has no global step; make it with global_step() and count it up in the "
        "training op",
        hook);
}

int64_t step_now(Session& session, const Tensor& global_step) {
  return session.run(global_step).to<int64_t>();
}

// The step after a run if the timer is due at it. The run fetched the step at an unknown point,
// perhaps before the step was counted up, so the session is asked again where one more step would
// make the timer due.
std::optional<int64_t> step_if_due(const EveryTimer& timer, const SessionRunContext& context,
                                   const SessionRunValues& values, const Tensor& global_step) {
  if (!timer.due(values.results[0].to<int64_t>() + 1)) return std::nullopt;
  const int64_t step = step_now(context.session(), global_step);
  return timer.due(step) ? std::optional(step) : std::nullopt;
}

}  // namespace

EveryTimer::EveryTimer(std::string_view hook, const Every& every, Now now)
    : every_(checked(hook, every)), now_(std::move(now)) {}

bool EveryTimer::due(int64_t step) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_.steps) return step >= *last_step_ + *every_.steps;
  return std::chrono::floor<std::chrono::milliseconds>(now_() - last_time_) >= *every_.time;
}

std::optional<EveryTimer::Elapsed> EveryTimer::happened(int64_t step) {
  const auto now = now_();
  std::optional<Elapsed> elapsed;
  if (last_step_) {
    elapsed = {.time = now - last_time_, .steps = step - *last_step_};
  }
  last_step_ = step;
  last_time_ = now;
  return elapsed;
}

DelegatingHook::DelegatingHook(std::unique_ptr<SessionRunHook> hook) : hook_(std::move(hook)) {}

void DelegatingHook::begin() { hook_->begin(); }

void DelegatingHook::prepare_graph() { hook_->prepare_graph(); }

void DelegatingHook::after_create_session(Session& session, Coordinator& coordinator) {
  hook_->after_create_session(session, coordinator);
}

SessionRunArgs DelegatingHook::before_run(SessionRunContext& context) {
  return hook_->before_run(context);
}

void DelegatingHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  hook_->after_run(context, values);
}

void DelegatingHook::end(Session& session) { hook_->end(session); }

}  // namespace internal

using internal::raise;
using internal::read_global_step;
using internal::step_now;

namespace {

class StopAtStepHookImpl : public SessionRunHook {
 public:
  explicit StopAtStepHookImpl(const StopAtStepOptions& options);
  void begin() override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const std::optional<int64_t> num_steps_;
  std::optional<int64_t> last_step_;
  Tensor global_step_;
};

StopAtStepHookImpl::StopAtStepHookImpl(const StopAtStepOptions& options)
    : num_steps_(options.num_steps), last_step_(options.last_step) {
  if (num_steps_.has_value() != last_step_.has_value()) return;
  raise(Code::InvalidArgument,
        "[StopAtStepHook] exactly one of .num_steps and .last_step must be given, got {}",
        num_steps_ ? "both" : "none");
}

void StopAtStepHookImpl::begin() { global_step_ = read_global_step("StopAtStepHook"); }

void StopAtStepHookImpl::after_create_session(Session& session, Coordinator&) {
  // A session that comes after a recovery keeps the goal of the first session.
  if (!last_step_) last_step_ = step_now(session, global_step_) + *num_steps_;
}

SessionRunArgs StopAtStepHookImpl::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StopAtStepHookImpl::after_run(SessionRunContext& context, const SessionRunValues& values) {
  // The run fetched the step at an unknown point, perhaps before the step was counted up.
  if (values.results[0].to<int64_t>() + 1 < *last_step_) return;
  if (step_now(context.session(), global_step_) >= *last_step_) context.request_stop();
}

class NanTensorHookImpl : public SessionRunHook {
 public:
  NanTensorHookImpl(Tensor loss, OnNan action);
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const Tensor loss_;
  const OnNan action_;
};

NanTensorHookImpl::NanTensorHookImpl(Tensor loss, OnNan action)
    : loss_(std::move(loss)), action_(action) {}

SessionRunArgs NanTensorHookImpl::before_run(SessionRunContext&) { return {.fetches = {loss_}}; }

void NanTensorHookImpl::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const std::vector<double> loss = values.results[0].to_vector<double>();
  if (std::ranges::none_of(loss, [](double x) { return std::isnan(x); })) return;
  if (action_ == OnNan::Throw) {
    raise(Code::InvalidArgument,
          "[NanTensorHook] the loss is NaN; a smaller learning rate may help");
  }
  internal::log_warning("[NanTensorHook] the loss is NaN: training stops");
  context.request_stop();
}

CheckpointSaverOptions checked(CheckpointSaverOptions options) {
  if (options.checkpoint_dir.empty()) {
    raise(Code::InvalidArgument, "[CheckpointSaverHook] .checkpoint_dir must be given");
  }
  if (options.saver == nullptr) options.saver = make_session_saver({}, {});
  return options;
}

const SummarySaverOptions& checked(const SummarySaverOptions& options) {
  if (options.scalars.empty() || options.summary_writer == nullptr) {
    raise(Code::InvalidArgument, "[SummarySaverHook] .{} must be given",
          options.summary_writer ? "scalars" : "summary_writer");
  }
  return options;
}

class CheckpointSaverHookImpl : public SessionRunHook {
 public:
  explicit CheckpointSaverHookImpl(const CheckpointSaverOptions& options);
  void begin() override;
  void prepare_graph() override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  void save(Session& session, int64_t step);

  const CheckpointSaverOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
};

CheckpointSaverHookImpl::CheckpointSaverHookImpl(const CheckpointSaverOptions& options)
    : options_(checked(options)), timer_("CheckpointSaverHook", options.every) {}

void CheckpointSaverHookImpl::begin() { global_step_ = read_global_step("CheckpointSaverHook"); }

void CheckpointSaverHookImpl::prepare_graph() { options_.saver->prepare_graph(); }

void CheckpointSaverHookImpl::save(Session& session, int64_t step) {
  timer_.happened(step);
  const std::filesystem::path directory(options_.checkpoint_dir);
  options_.saver->save(session, (directory / options_.basename).string(), step);
}

void CheckpointSaverHookImpl::after_create_session(Session& session, Coordinator&) {
  save(session, step_now(session, global_step_));
}

SessionRunArgs CheckpointSaverHookImpl::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void CheckpointSaverHookImpl::after_run(SessionRunContext& context,
                                        const SessionRunValues& values) {
  const auto step = internal::step_if_due(timer_, context, values, global_step_);
  if (step) save(context.session(), *step);
}

void CheckpointSaverHookImpl::end(Session& session) {
  const int64_t step = step_now(session, global_step_);
  if (timer_.last_step() != step) save(session, step);
}

class StepCounterHookImpl : public SessionRunHook {
 public:
  explicit StepCounterHookImpl(const StepCounterOptions& options);
  void begin() override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const StepCounterOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
};

StepCounterHookImpl::StepCounterHookImpl(const StepCounterOptions& options)
    : options_(options), timer_("StepCounterHook", options.every) {}

void StepCounterHookImpl::begin() { global_step_ = read_global_step("StepCounterHook"); }

SessionRunArgs StepCounterHookImpl::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StepCounterHookImpl::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const auto step = internal::step_if_due(timer_, context, values, global_step_);
  if (!step) return;
  const auto elapsed = timer_.happened(*step);
  if (!elapsed || elapsed->time.count() <= 0) return;
  const double per_second =
      static_cast<double>(elapsed->steps) / std::chrono::duration<double>(elapsed->time).count();
  internal::log_info("[StepCounterHook] global_step/sec: {:.6g}", per_second);
  if (options_.summary_writer) {
    options_.summary_writer->add_scalar("global_step/sec", per_second, *step);
  }
}

class SummarySaverHookImpl : public SessionRunHook {
 public:
  explicit SummarySaverHookImpl(const SummarySaverOptions& options);
  void begin() override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  const SummarySaverOptions options_;
  internal::EveryTimer timer_;
  Tensor global_step_;
  int64_t next_step_ = 0;
  bool asked_ = false;
};

SummarySaverHookImpl::SummarySaverHookImpl(const SummarySaverOptions& options)
    : options_(checked(options)), timer_("SummarySaverHook", options.every) {}

void SummarySaverHookImpl::begin() { global_step_ = read_global_step("SummarySaverHook"); }

SessionRunArgs SummarySaverHookImpl::before_run(SessionRunContext& context) {
  // Only the session knows exactly which step the run will make.
  if (timer_.last_step() && timer_.due(next_step_)) {
    next_step_ = step_now(context.session(), global_step_) + 1;
  }
  asked_ = timer_.due(next_step_);
  SessionRunArgs args{.fetches = {global_step_}};
  if (!asked_) return args;
  for (const auto& [tag, scalar] : options_.scalars) args.fetches.push_back(scalar);
  return args;
}

void SummarySaverHookImpl::after_run(SessionRunContext& context, const SessionRunValues& values) {
  next_step_ = values.results[0].to<int64_t>() + 2;
  if (!asked_) return;
  const int64_t step = step_now(context.session(), global_step_);
  timer_.happened(step);
  next_step_ = step + 1;
  size_t i = 1;
  for (const auto& [tag, scalar] : options_.scalars) {
    options_.summary_writer->add_scalar(tag, values.results[i++].to<double>(), step);
  }
}

void SummarySaverHookImpl::end(Session&) { options_.summary_writer->flush(); }

class LoggingTensorHookImpl : public SessionRunHook {
 public:
  explicit LoggingTensorHookImpl(const LoggingTensorOptions& options);
  SessionRunArgs before_run(SessionRunContext& context) override;
  void after_run(SessionRunContext& context, const SessionRunValues& values) override;
  void end(Session& session) override;

 private:
  void print(const std::vector<Tensor>& values) const;

  LoggingTensorOptions options_;
  std::vector<Tensor> fetches_;
  internal::EveryTimer timer_;
  int64_t runs_ = 0;
  bool asked_ = false;
};

LoggingTensorHookImpl::LoggingTensorHookImpl(const LoggingTensorOptions& options)
    : options_(options), timer_("LoggingTensorHook", options.every) {
  if (options.tensors.empty()) {
    raise(Code::InvalidArgument, "[LoggingTensorHook] .tensors must be given");
  }
  for (const auto& [name, tensor] : options.tensors) fetches_.push_back(tensor);
  if (!options_.write) {
    options_.write = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  }
}

void LoggingTensorHookImpl::print(const std::vector<Tensor>& values) const {
  std::string line;
  auto value = values.begin();
  for (const auto& [name, tensor] : options_.tensors) {
    line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", name,
                        internal::format_like_python(*value++));
  }
  options_.write(line);
}

SessionRunArgs LoggingTensorHookImpl::before_run(SessionRunContext&) {
  asked_ = timer_.due(runs_);
  return asked_ ? SessionRunArgs{.fetches = fetches_} : SessionRunArgs{};
}

void LoggingTensorHookImpl::after_run(SessionRunContext&, const SessionRunValues& values) {
  if (asked_) {
    timer_.happened(runs_);
    print(values.results);
  }
  ++runs_;
}

void LoggingTensorHookImpl::end(Session& session) {
  if (options_.at_end) print(session.run(fetches_));
}

class FeedFnHookImpl : public SessionRunHook {
 public:
  explicit FeedFnHookImpl(std::function<Feeds()> feed) : feed_(std::move(feed)) {}
  SessionRunArgs before_run(SessionRunContext&) override { return {.feeds = feed_()}; }

 private:
  const std::function<Feeds()> feed_;
};

}  // namespace

StopAtStepHook::StopAtStepHook(const StopAtStepOptions& options)
    : DelegatingHook(std::make_unique<StopAtStepHookImpl>(options)) {}

NanTensorHook::NanTensorHook(Tensor loss, OnNan action)
    : DelegatingHook(std::make_unique<NanTensorHookImpl>(std::move(loss), action)) {}

CheckpointSaverHook::CheckpointSaverHook(const CheckpointSaverOptions& options)
    : DelegatingHook(std::make_unique<CheckpointSaverHookImpl>(options)) {}

StepCounterHook::StepCounterHook(const StepCounterOptions& options)
    : DelegatingHook(std::make_unique<StepCounterHookImpl>(options)) {}

SummarySaverHook::SummarySaverHook(const SummarySaverOptions& options)
    : DelegatingHook(std::make_unique<SummarySaverHookImpl>(options)) {}

LoggingTensorHook::LoggingTensorHook(const LoggingTensorOptions& options)
    : DelegatingHook(std::make_unique<LoggingTensorHookImpl>(options)) {}

FeedFnHook::FeedFnHook(std::function<Feeds()> feed)
    : DelegatingHook(std::make_unique<FeedFnHookImpl>(std::move(feed))) {}

}  // namespace cohort
