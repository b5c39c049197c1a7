#pragma once

#include "base/site_scope.h"
#include "cohort/device.h"
#include "graph_training/session_manager.h"

// How MonitoredSession and Supervisor make the model of a session ready. `Ops` is a Scaffold or a
// SupervisorOptions.
namespace cohort::internal {

// Adds the missing ops to the graph being built, for the variables made so far, and the nodes of
// the saver.
template <typename Ops>
void make_missing_ops(Ops& ops, Site site) {
  const SiteScope there(site);
  {
    // It does not matter where these ops run, so no open device scope places them.
    const auto anywhere = device(nullptr);
    if (!ops.init_op.defined()) ops.init_op = global_variables_initializer();
    if (!ops.ready_op.defined()) ops.ready_op = report_uninitialized_variables();
    if (!ops.local_init_op.defined()) {
      ops.local_init_op = local_variables_initializer();
      if (!ops.ready_for_local_init_op.defined()) {
        ops.ready_for_local_init_op = report_uninitialized_variables(global_variables());
      }
    }
  }
  if (!ops.saver) return;
  const UsersCode saver;
  ops.saver->prepare_graph();
}

template <typename Ops>
InitOptions init_options(const Ops& ops) {
  return {.init_op = ops.init_op, .init_feeds = ops.init_feeds, .init_fn = ops.init_fn};
}

template <typename Ops>
std::shared_ptr<const SessionManager> manager_for(const Ops& ops, const Graph& graph,
                                                  std::chrono::milliseconds recovery_wait) {
  return std::make_shared<const SessionManager>(
      SessionManagerOptions{.graph = graph,
                            .ready_op = ops.ready_op,
                            .ready_for_local_init_op = ops.ready_for_local_init_op,
                            .local_init_op = ops.local_init_op,
                            .recovery_wait = recovery_wait});
}

}  // namespace cohort::internal
