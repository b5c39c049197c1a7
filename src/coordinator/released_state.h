#pragma once

#include "cluster/remote_session.h"
#include "cohort/device.h"

namespace cohort::internal {

// A graph keeps its nodes for good. A session whose graph has more than this many nodes of
// functions that are gone is replaced, which takes a few milliseconds.
inline constexpr int kMaxDeadNodes = 500;

// Has a task forget state by name, through a session on it. The session's user guards it.
class StateReleaser {
 public:
  // `container` on `device` has the state.
  StateReleaser(std::shared_ptr<GraphImpl> graph, std::shared_ptr<RemoteSession> session,
                std::string container, DeviceName device)
      : graph_(std::move(graph)),
        session_(std::move(session)),
        container_(std::move(container)),
        device_(std::move(device)) {}

  // Whether the task has done so, within the limit.
  [[nodiscard]] bool forget(const std::vector<std::string>& names, std::chrono::milliseconds limit);

 private:
  const std::shared_ptr<GraphImpl> graph_;
  const std::shared_ptr<RemoteSession> session_;
  const std::string container_;
  const DeviceName device_;
  std::shared_ptr<const PreparedCall> call_;  // made when first needed
};

}  // namespace cohort::internal
