#pragma once

#include "cohort/monitored_session.h"

namespace cohort::internal {

// A session that is made anew when it gets lost, with its hooks and helper threads.
class MonitoredSessionImpl {
 public:
  explicit MonitoredSessionImpl(MonitoredSessionOptions options);
  ~MonitoredSessionImpl();

  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                          const RunOptions& options, RunMetadata* metadata);
  bool should_stop();
  enum class HooksEnd { Call, Skip };
  void close(HooksEnd hooks_end);
  bool closed() const { return closed_; }
  Session& session();

 private:
  // A session and the threads that go with it.
  struct Live;

  std::unique_ptr<Live> create();
  // Runs `attempt` until it succeeds or fails for good, with a new session after each loss.
  void with_recovery(std::string_view what, const std::function<void()>& attempt);
  void drop_session();
  void check_open() const;

  MonitoredSessionOptions options_;
  const Graph graph_;
  std::unique_ptr<Live> live_;  // null after a loss, until somebody needs it
  bool stop_requested_ = false;
  bool closed_ = false;
};

}  // namespace cohort::internal
