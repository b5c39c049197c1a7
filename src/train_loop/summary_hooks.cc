#include "base/log.h"
#include "base/raise.h"
#include "cohort/hooks.h"
#include "train_loop/global_step.h"

namespace cohort {
namespace {

const SummarySaverOptions& checked(const SummarySaverOptions& options) {
  if (options.scalars.empty() || options.summary_writer == nullptr) {
    internal::raise(Code::InvalidArgument, "[SummarySaverHook] .{} must be given",
                    options.summary_writer ? "scalars" : "summary_writer");
  }
  return options;
}

}  // namespace

StepCounterHook::StepCounterHook(const StepCounterOptions& options)
    : options_(options), timer_("StepCounterHook", options.every) {}

void StepCounterHook::begin() { global_step_ = internal::read_global_step("StepCounterHook"); }

SessionRunArgs StepCounterHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StepCounterHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  if (!timer_.due(values.results[0].to<int64_t>() + 1)) return;
  const int64_t step = internal::step_now(context.session(), global_step_);
  if (!timer_.due(step)) return;
  const auto elapsed = timer_.happened(step);
  if (!elapsed || elapsed->secs <= 0) return;
  const double per_second = static_cast<double>(elapsed->steps) / elapsed->secs;
  internal::log_info("global_step/sec: {:.6g}", per_second);
  if (options_.summary_writer) {
    options_.summary_writer->add_scalar("global_step/sec", per_second, step);
  }
}

SummarySaverHook::SummarySaverHook(const SummarySaverOptions& options)
    : options_(checked(options)), timer_("SummarySaverHook", options.every) {}

void SummarySaverHook::begin() { global_step_ = internal::read_global_step("SummarySaverHook"); }

SessionRunArgs SummarySaverHook::before_run(SessionRunContext& context) {
  // The step that the run will make is known exactly only to the session.
  if (timer_.last_step() && timer_.due(next_step_)) {
    next_step_ = internal::step_now(context.session(), global_step_) + 1;
  }
  asked_ = timer_.due(next_step_);
  SessionRunArgs args{.fetches = {global_step_}};
  if (!asked_) return args;
  for (const auto& [tag, scalar] : options_.scalars) args.fetches.push_back(scalar);
  return args;
}

void SummarySaverHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  next_step_ = values.results[0].to<int64_t>() + 2;
  if (!asked_) return;
  const int64_t step = internal::step_now(context.session(), global_step_);
  timer_.happened(step);
  next_step_ = step + 1;
  size_t i = 1;
  for (const auto& [tag, scalar] : options_.scalars) {
    options_.summary_writer->add_scalar(tag, values.results[i++].to<double>(), step);
  }
}

void SummarySaverHook::end(Session&) { options_.summary_writer->flush(); }

}  // namespace cohort
