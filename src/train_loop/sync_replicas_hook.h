#pragma once

#include <atomic>

#include "train_loop/sync_replicas_graph.h"

namespace cohort::internal {

// What a MonitoredSession does for synchronous training: readies its worker's part, runs the
// chief's threads, and leaves at the end, however that comes about.
class SyncReplicasHook : public SessionRunHook {
 public:
  struct Limits {
    std::chrono::milliseconds step_timeout;
    std::chrono::milliseconds idle_limit;
  };
  SyncReplicasHook(std::shared_ptr<SyncReplicas> replicas, bool is_chief, Tensor init_tokens,
                   Tensor restart_tokens, Limits limits);

  void after_create_session(Session& session, Coordinator& coordinator) override;
  SessionRunArgs before_run(SessionRunContext& context) override;
  void end(Session& session) override;

 private:
  void start_chief(Session& session, Coordinator& coordinator);
  void serve_others(Session& session);
  // Lets the others go on should this process be lost: in a thread, until the coordinator stops.
  void stay_present(Session& session, Coordinator& coordinator);
  void leave(Session& session);
  void release(Session& session) const;

  const std::shared_ptr<SyncReplicas> replicas_;
  const bool is_chief_;
  const Tensor init_tokens_;
  const Tensor restart_tokens_;
  const Limits limits_;
  const Coordinator* coordinator_ = nullptr;  // of the session of now
  std::atomic<bool> left_{false};
};

}  // namespace cohort::internal
