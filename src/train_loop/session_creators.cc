#include "cohort/monitored_session.h"
#include "train_loop/default_ops.h"

namespace cohort {
namespace {

SessionManager manager_for(const SessionCreatorOptions& options) {
  const Scaffold& scaffold = options.scaffold;
  return SessionManager({.ready_op = scaffold.ready_op,
                         .ready_for_local_init_op = scaffold.ready_for_local_init_op,
                         .local_init_op = scaffold.local_init_op,
                         .recovery_wait = options.recovery_wait});
}

}  // namespace

void Scaffold::finalize() {
  internal::DefaultOps made{init_op, local_init_op, ready_op, ready_for_local_init_op};
  made.make_missing();
  init_op = made.init_op;
  local_init_op = made.local_init_op;
  ready_op = made.ready_op;
  ready_for_local_init_op = made.ready_for_local_init_op;
  if (saver) saver->prepare_graph();
}

ChiefSessionCreator::ChiefSessionCreator(const SessionCreatorOptions& options)
    : options_(options) {}

void ChiefSessionCreator::prepare_graph() {
  options_.scaffold.finalize();
  manager_.emplace(manager_for(options_));
}

std::unique_ptr<Session> ChiefSessionCreator::create_session() {
  if (!manager_) prepare_graph();
  const Scaffold& scaffold = options_.scaffold;
  return manager_->prepare_session(
      options_.master,
      {.init_op = scaffold.init_op, .init_feeds = scaffold.init_feeds, .init_fn = scaffold.init_fn},
      {.saver = scaffold.saver,
       .checkpoint_dir = options_.checkpoint_dir,
       .checkpoint_path = options_.checkpoint_path,
       .config = options_.config});
}

WorkerSessionCreator::WorkerSessionCreator(const SessionCreatorOptions& options)
    : options_(options) {}

void WorkerSessionCreator::prepare_graph() {
  options_.scaffold.finalize();
  manager_.emplace(manager_for(options_));
}

std::unique_ptr<Session> WorkerSessionCreator::create_session() {
  if (!manager_) prepare_graph();
  return manager_->wait_for_session(options_.master,
                                    {.max_wait = options_.max_wait, .config = options_.config});
}

}  // namespace cohort
