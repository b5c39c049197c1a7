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

}  // namespace internal

using internal::raise;
using internal::read_global_step;
using internal::step_now;

StopAtStepHook::StopAtStepHook(const StopAtStepOptions& options)
    : num_steps_(options.num_steps), last_step_(options.last_step) {
  if (num_steps_.has_value() != last_step_.has_value()) return;
  raise(Code::InvalidArgument,
        "[StopAtStepHook] exactly one of .num_steps and .last_step must be given, got {}",
        num_steps_ ? "both" : "none");
}

void StopAtStepHook::begin() { global_step_ = read_global_step("StopAtStepHook"); }

void StopAtStepHook::after_create_session(Session& session, Coordinator&) {
  // A session that comes after a recovery keeps the goal of the first session.
  if (!last_step_) last_step_ = step_now(session, global_step_) + *num_steps_;
}

SessionRunArgs StopAtStepHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StopAtStepHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  // The run fetched the step at an unknown point, perhaps before the step was counted up.
  if (values.results[0].to<int64_t>() + 1 < *last_step_) return;
  if (step_now(context.session(), global_step_) >= *last_step_) context.request_stop();
}

NanTensorHook::NanTensorHook(Tensor loss, OnNan action) : loss_(std::move(loss)), action_(action) {}

SessionRunArgs NanTensorHook::before_run(SessionRunContext&) { return {.fetches = {loss_}}; }

void NanTensorHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const std::vector<double> loss = values.results[0].to_vector<double>();
  if (std::ranges::none_of(loss, [](double x) { return std::isnan(x); })) return;
  if (action_ == OnNan::Throw) {
    raise(Code::InvalidArgument,
          "[NanTensorHook] the loss is NaN; a smaller learning rate may help");
  }
  internal::log_warning("[NanTensorHook] the loss is NaN: training stops");
  context.request_stop();
}

namespace {

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

}  // namespace

CheckpointSaverHook::CheckpointSaverHook(const CheckpointSaverOptions& options)
    : options_(checked(options)),
      timer_(std::make_unique<internal::EveryTimer>("CheckpointSaverHook", options.every)) {}

CheckpointSaverHook::~CheckpointSaverHook() = default;

void CheckpointSaverHook::begin() { global_step_ = read_global_step("CheckpointSaverHook"); }

void CheckpointSaverHook::prepare_graph() { options_.saver->prepare_graph(); }

void CheckpointSaverHook::save(Session& session, int64_t step) {
  timer_->happened(step);
  const std::filesystem::path directory(options_.checkpoint_dir);
  options_.saver->save(session, (directory / options_.basename).string(), step);
}

void CheckpointSaverHook::after_create_session(Session& session, Coordinator&) {
  save(session, step_now(session, global_step_));
}

SessionRunArgs CheckpointSaverHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void CheckpointSaverHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const auto step = internal::step_if_due(*timer_, context, values, global_step_);
  if (step) save(context.session(), *step);
}

void CheckpointSaverHook::end(Session& session) {
  const int64_t step = step_now(session, global_step_);
  if (timer_->last_step() != step) save(session, step);
}

StepCounterHook::StepCounterHook(const StepCounterOptions& options)
    : options_(options),
      timer_(std::make_unique<internal::EveryTimer>("StepCounterHook", options.every)) {}

StepCounterHook::~StepCounterHook() = default;

void StepCounterHook::begin() { global_step_ = read_global_step("StepCounterHook"); }

SessionRunArgs StepCounterHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StepCounterHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const auto step = internal::step_if_due(*timer_, context, values, global_step_);
  if (!step) return;
  const auto elapsed = timer_->happened(*step);
  if (!elapsed || elapsed->time.count() <= 0) return;
  const double per_second =
      static_cast<double>(elapsed->steps) / std::chrono::duration<double>(elapsed->time).count();
  internal::log_info("[StepCounterHook] global_step/sec: {:.6g}", per_second);
  if (options_.summary_writer) {
    options_.summary_writer->add_scalar("global_step/sec", per_second, *step);
  }
}

SummarySaverHook::SummarySaverHook(const SummarySaverOptions& options)
    : options_(checked(options)),
      timer_(std::make_unique<internal::EveryTimer>("SummarySaverHook", options.every)) {}

SummarySaverHook::~SummarySaverHook() = default;

void SummarySaverHook::begin() { global_step_ = read_global_step("SummarySaverHook"); }

SessionRunArgs SummarySaverHook::before_run(SessionRunContext& context) {
  // Only the session knows exactly which step the run will make.
  if (timer_->last_step() && timer_->due(next_step_)) {
    next_step_ = step_now(context.session(), global_step_) + 1;
  }
  asked_ = timer_->due(next_step_);
  SessionRunArgs args{.fetches = {global_step_}};
  if (!asked_) return args;
  for (const auto& [tag, scalar] : options_.scalars) args.fetches.push_back(scalar);
  return args;
}

void SummarySaverHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  next_step_ = values.results[0].to<int64_t>() + 2;
  if (!asked_) return;
  const int64_t step = step_now(context.session(), global_step_);
  timer_->happened(step);
  next_step_ = step + 1;
  size_t i = 1;
  for (const auto& [tag, scalar] : options_.scalars) {
    options_.summary_writer->add_scalar(tag, values.results[i++].to<double>(), step);
  }
}

void SummarySaverHook::end(Session&) { options_.summary_writer->flush(); }

LoggingTensorHook::LoggingTensorHook(const LoggingTensorOptions& options)
    : options_(options),
      timer_(std::make_unique<internal::EveryTimer>("LoggingTensorHook", options.every)) {
  if (options.tensors.empty()) {
    raise(Code::InvalidArgument, "[LoggingTensorHook] .tensors must be given");
  }
  for (const auto& [name, tensor] : options.tensors) fetches_.push_back(tensor);
  if (!options_.write) {
    options_.write = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  }
}

LoggingTensorHook::~LoggingTensorHook() = default;

void LoggingTensorHook::print(const std::vector<Tensor>& values) const {
  std::string line;
  auto value = values.begin();
  for (const auto& [name, tensor] : options_.tensors) {
    line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", name,
                        internal::format_like_python(*value++));
  }
  options_.write(line);
}

SessionRunArgs LoggingTensorHook::before_run(SessionRunContext&) {
  asked_ = timer_->due(runs_);
  return asked_ ? SessionRunArgs{.fetches = fetches_} : SessionRunArgs{};
}

void LoggingTensorHook::after_run(SessionRunContext&, const SessionRunValues& values) {
  if (asked_) {
    timer_->happened(runs_);
    print(values.results);
  }
  ++runs_;
}

void LoggingTensorHook::end(Session& session) {
  if (options_.at_end) print(session.run(fetches_));
}

}  // namespace cohort
