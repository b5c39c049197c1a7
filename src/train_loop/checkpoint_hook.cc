#include <filesystem>

#include "base/raise.h"
#include "cohort/hooks.h"
#include "train_loop/global_step.h"

namespace cohort {
namespace {

CheckpointSaverOptions checked(CheckpointSaverOptions options) {
  if (options.checkpoint_dir.empty()) {
    internal::raise(Code::InvalidArgument, "[CheckpointSaverHook] .checkpoint_dir must be given");
  }
  if (options.saver == nullptr) options.saver = make_session_saver();
  return options;
}

}  // namespace

CheckpointSaverHook::CheckpointSaverHook(const CheckpointSaverOptions& options)
    : options_(checked(options)), timer_("CheckpointSaverHook", options.every) {}

void CheckpointSaverHook::begin() {
  global_step_ = internal::read_global_step("CheckpointSaverHook");
}

void CheckpointSaverHook::prepare_graph() { options_.saver->prepare_graph(); }

void CheckpointSaverHook::save(Session& session, int64_t step) {
  timer_.happened(step);
  const std::filesystem::path folder(options_.checkpoint_dir);
  options_.saver->save(session, (folder / options_.basename).string(), step);
}

void CheckpointSaverHook::after_create_session(Session& session, Coordinator&) {
  save(session, internal::step_now(session, global_step_));
}

SessionRunArgs CheckpointSaverHook::before_run(SessionRunContext&) {
  return {.fetches = {global_step_}};
}

void CheckpointSaverHook::after_run(SessionRunContext& context, const SessionRunValues& values) {
  // The step was read somewhere during the run, perhaps before it was counted up.
  if (!timer_.due(values.results[0].to<int64_t>() + 1)) return;
  const int64_t step = internal::step_now(context.session(), global_step_);
  if (timer_.due(step)) save(context.session(), step);
}

void CheckpointSaverHook::end(Session& session) {
  const int64_t step = internal::step_now(session, global_step_);
  if (timer_.last_step() != step) save(session, step);
}

}  // namespace cohort
