#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/hooks.h"
#include "train_loop/global_step.h"

namespace cohort {

StopAtStepHook::StopAtStepHook(const StopAtStepOptions& options)
    : num_steps_(options.num_steps), last_step_(options.last_step) {
  if (num_steps_.has_value() != last_step_.has_value()) return;
  internal::raise(Code::InvalidArgument,
                  "[StopAtStepHook] exactly one of .num_steps and .last_step must be given, got {}",
                  num_steps_ ? "both" : "none");
}

void StopAtStepHook::begin() { global_step_ = internal::read_global_step("StopAtStepHook"); }

void StopAtStepHook::after_create_session(Session& session, Coordinator&) {
  // Sessions that come after a recovery go on with the same goal.
  if (!last_step_) last_step_ = internal::step_now(session, global_step_) + *num_steps_;
}

SessionRunArgs StopAtStepHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void StopAtStepHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  // The step was read somewhere during the run, perhaps before it was counted up.
  if (values.results[0].to<int64_t>() + 1 < *last_step_) return;
  if (internal::step_now(context.session(), global_step_) >= *last_step_) context.request_stop();
}

NanTensorHook::NanTensorHook(Tensor loss, OnNan action) : loss_(std::move(loss)), action_(action) {}

SessionRunArgs NanTensorHook::before_run(SessionRunContext&) { return {.fetches = {loss_}}; }

void NanTensorHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  const std::vector<double> loss = values.results[0].to_vector<double>();
  if (std::none_of(loss.begin(), loss.end(), [](double x) { return std::isnan(x); })) return;
  if (action_ == OnNan::Throw) {
    internal::raise(Code::InvalidArgument,
                    "[NanTensorHook] the loss is NaN; a smaller learning rate may help");
  }
  internal::log_warning("[NanTensorHook] the loss is NaN: training stops");
  context.request_stop();
}

}  // namespace cohort
