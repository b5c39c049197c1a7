#include "cohort/monitored_session.h"

#include "base/exceptions.h"
#include "graph/named_fetches.h"
#include "train_loop/monitored_session_impl.h"

namespace cohort {

using Impl = internal::MonitoredSessionImpl;

MonitoredSession::MonitoredSession(const MonitoredSessionOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
MonitoredSession::~MonitoredSession() = default;

std::vector<Tensor> MonitoredSession::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                          const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(fetches, feeds, options, metadata);
}

Tensor MonitoredSession::run(const Tensor& fetch, const Feeds& feeds, const RunOptions& options,
                             RunMetadata* metadata) {
  return impl_->run({fetch}, feeds, options, metadata)[0];
}

std::vector<Tensor> MonitoredSession::run(std::initializer_list<Tensor> fetches, const Feeds& feeds,
                                          const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(std::vector<Tensor>(fetches), feeds, options, metadata);
}

std::map<std::string, Tensor> MonitoredSession::run(const std::map<std::string, Tensor>& fetches,
                                                    const Feeds& feeds, const RunOptions& options,
                                                    RunMetadata* metadata) {
  return internal::run_by_name(fetches, [&](const std::vector<Tensor>& tensors) {
    return impl_->run(tensors, feeds, options, metadata);
  });
}

bool MonitoredSession::should_stop() { return impl_->should_stop(); }
void MonitoredSession::close() { impl_->close(Impl::HooksEnd::Call); }
Session& MonitoredSession::raw_session() { return impl_->session(); }

void MonitoredSession::manage(const std::function<void()>& loop) {
  const std::exception_ptr thrown = internal::capture_exception(loop);
  const bool clean = thrown == nullptr || internal::status_of(thrown).code == Code::OutOfRange;
  const std::exception_ptr closed = internal::capture_exception([&] {
    if (!impl_->closed()) impl_->close(clean ? Impl::HooksEnd::Call : Impl::HooksEnd::Skip);
  });
  if (!clean) std::rethrow_exception(thrown);
  internal::rethrow_if_any(closed);
}

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
