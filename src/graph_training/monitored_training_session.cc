#include "cohort/monitored_session.h"

namespace cohort {
namespace {

MonitoredSessionOptions without_recovery(MonitoredSessionOptions options) {
  options.recovery.max_attempts = 0;
  return options;
}

SessionCreatorOptions creator_options(const MonitoredTrainingSessionOptions& options) {
  return {.scaffold = options.scaffold,
          .master = options.master,
          .config = options.config,
          .checkpoint_dir = options.checkpoint_dir,
          .max_wait = options.max_wait};
}

bool is_wanted(const Every& every) { return every.steps || every.secs; }

Hooks chief_hooks(const MonitoredTrainingSessionOptions& options) {
  Hooks hooks = options.chief_only_hooks;
  if (options.log_step_count_steps && find_global_step()) {
    hooks.push_back(std::make_shared<StepCounterHook>(
        StepCounterOptions{.every = {.steps = *options.log_step_count_steps},
                           .summary_writer = options.summary_writer}));
  }
  const bool summarises = options.summary_writer && !options.summaries.empty();
  if (summarises && is_wanted(options.save_summaries)) {
    hooks.push_back(std::make_shared<SummarySaverHook>(
        SummarySaverOptions{.scalars = options.summaries,
                            .every = options.save_summaries,
                            .summary_writer = options.summary_writer}));
  }
  const bool saves = !options.checkpoint_dir.empty() && options.scaffold.saver;
  if (saves && is_wanted(options.save_checkpoint)) {
    hooks.push_back(std::make_shared<CheckpointSaverHook>(
        CheckpointSaverOptions{.checkpoint_dir = options.checkpoint_dir,
                               .every = options.save_checkpoint,
                               .saver = options.scaffold.saver}));
  }
  return hooks;
}

MonitoredTrainingSessionOptions with_saver(MonitoredTrainingSessionOptions options) {
  const bool saves = options.is_chief && !options.checkpoint_dir.empty();
  if (saves && !options.scaffold.saver) options.scaffold.saver = make_session_saver();
  return options;
}

MonitoredSessionOptions training(const MonitoredTrainingSessionOptions& options) {
  MonitoredSessionOptions all{.session_creator = nullptr,
                              .hooks = options.hooks,
                              .stop_grace_period = options.stop_grace_period,
                              .recovery = options.recovery};
  if (!options.is_chief) {
    all.session_creator = std::make_shared<WorkerSessionCreator>(creator_options(options));
    return all;
  }
  all.session_creator = std::make_shared<ChiefSessionCreator>(creator_options(options));
  const Hooks more = chief_hooks(options);
  all.hooks.insert(all.hooks.end(), more.begin(), more.end());
  return all;
}

}  // namespace

SingularMonitoredSession::SingularMonitoredSession(const MonitoredSessionOptions& options)
    : MonitoredSession(without_recovery(options)) {}

MonitoredTrainingSession::MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options)
    : MonitoredSession(training(with_saver(options))) {}

}  // namespace cohort
