#pragma once

#include "cohort/device.h"
#include "cohort/session_manager.h"

// What MonitoredSession and Supervisor have in common: how a session's model becomes ready. `Ops`
// is a Scaffold or a SupervisorOptions.
namespace cohort::internal {

// Whether a new session may help: another task is gone or was restarted.
inline bool is_preemption(Code code) { return code == Code::Aborted || code == Code::Unavailable; }

// Adds the ops that were not given to the graph being built, for the variables made so far, and
// what the saver needs.
template <typename Ops>
void make_missing_ops(Ops& ops) {
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
  if (ops.saver) ops.saver->prepare_graph();
}

template <typename Ops>
InitOptions init_options(const Ops& ops) {
  return {.init_op = ops.init_op, .init_feeds = ops.init_feeds, .init_fn = ops.init_fn};
}

template <typename Ops>
SessionManager manager_for(const Ops& ops, const Graph& graph,
                           std::chrono::milliseconds recovery_wait) {
  return SessionManager({.graph = graph,
                         .ready_op = ops.ready_op,
                         .ready_for_local_init_op = ops.ready_for_local_init_op,
                         .local_init_op = ops.local_init_op,
                         .recovery_wait = recovery_wait});
}

}  // namespace cohort::internal
