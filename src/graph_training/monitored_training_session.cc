#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/monitored_session.h"
#include "graph_training/session_setup.h"

namespace cohort {
namespace {

// A Saver that is made when the graph has all its variables.
class GraphSaver : public SessionSaver {
 public:
  GraphSaver(const SaverOptions& options, Site site) : options_(options), site_(site) {}

  void prepare_graph() override {
    if (saver_ || global_variables().empty()) return;
    const internal::LibraryCode here;
    const auto anywhere = device(nullptr);  // the saver places its nodes itself
    saver_.emplace(options_, site_);
  }

  std::string save(Session& session, const std::string& prefix, int64_t step) override {
    return saver().save(session, prefix, {.global_step = step});
  }

  void restore(Session& session, const std::string& path) override {
    saver().restore(session, path);
  }

  std::optional<std::string> latest(const std::string& directory) override {
    return latest_checkpoint(directory);
  }

 private:
  Saver& saver() {
    if (saver_) return *saver_;
    internal::raise(Code::FailedPrecondition,
                    "[SessionSaver] the graph had no variables to save when the session was made");
  }

  const SaverOptions options_;
  const Site site_;  // of the nodes
  std::optional<Saver> saver_;
};

std::shared_ptr<const internal::SessionManager> prepared(SessionCreatorOptions& options) {
  const internal::LibraryCode here;
  options.scaffold.finalize({});
  return internal::manager_for(options.scaffold, get_default_graph(), options.recovery_wait);
}

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

bool is_wanted(const Every& every) { return every.steps || every.time; }

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

MonitoredTrainingSessionOptions with_saver(MonitoredTrainingSessionOptions options, Site site) {
  const bool saves = options.is_chief && !options.checkpoint_dir.empty();
  if (saves && !options.scaffold.saver) options.scaffold.saver = make_session_saver({}, site);
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

std::shared_ptr<SessionSaver> make_session_saver(const SaverOptions& options, Site site) {
  return std::make_shared<GraphSaver>(options, site);
}

void Scaffold::finalize(Site site) { internal::make_missing_ops(*this, site); }

ChiefSessionCreator::ChiefSessionCreator(const SessionCreatorOptions& options)
    : options_(options) {}

void ChiefSessionCreator::prepare_graph() { manager_ = prepared(options_); }

std::unique_ptr<Session> ChiefSessionCreator::create_session() {
  if (!manager_) prepare_graph();
  return manager_->prepare_session(options_.master, internal::init_options(options_.scaffold),
                                   {.saver = options_.scaffold.saver,
                                    .checkpoint_dir = options_.checkpoint_dir,
                                    .checkpoint_path = options_.checkpoint_path,
                                    .config = options_.config});
}

WorkerSessionCreator::WorkerSessionCreator(const SessionCreatorOptions& options)
    : options_(options) {}

void WorkerSessionCreator::prepare_graph() { manager_ = prepared(options_); }

std::unique_ptr<Session> WorkerSessionCreator::create_session() {
  if (!manager_) prepare_graph();
  return manager_->wait_for_session(options_.master,
                                    {.max_wait = options_.max_wait, .config = options_.config});
}

SingularMonitoredSession::SingularMonitoredSession(const MonitoredSessionOptions& options,
                                                   Site site)
    : MonitoredSession(without_recovery(options), site) {}

MonitoredTrainingSession::MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options,
                                                   Site site)
    : MonitoredSession(training(with_saver(options, site)), site) {}

}  // namespace cohort
