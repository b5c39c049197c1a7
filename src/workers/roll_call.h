#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/rare_log.h"
#include "base/thread.h"
#include "workers/absent_workers.h"
#include "workers/introduction.h"
#include "workers/visits.h"
#include "workers/worker_endpoint.h"

namespace cohort::internal {

// How the workers of a group find each other, and find out whether they belong together.
//
// Everybody visits worker 0, the leader, and introduces itself; when all have come the leader sends
// everybody's introduction to everybody. Until then the leader also visits those who are missing,
// because they may wait for somebody else. Whoever finds something wrong tells all that can be
// reached, so that all fail with the same words. Afterwards it answers those who come too late.
class WorkerRollCall {
 public:
  struct Options {
    Credentials credentials = {};
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);
    size_t replicas = 1;
    std::string settings = {};  // whatever else all must have alike
    bool resumes = false;       // this worker was in the group before
  };
  // Begins to listen. Throws what keeps it from that, and tells the others.
  WorkerRollCall(WorkerList workers, Options options);
  ~WorkerRollCall();

  // Waits for the others. Everybody's introduction, by id. Throws DeadlineExceeded with the names
  // of those who are missing, FailedPrecondition when somebody does not belong here.
  std::vector<Introduction> run();

  WorkerEndpoint& endpoint() { return *endpoint_; }
  // After run(): the group has lost somebody. Who comes now waits for the next one.
  void note_loss();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<Mutex>;
  struct Arrival {
    Introduction introduction;
    std::shared_ptr<Connection> connection;
  };

  void listen();
  void lead();
  void follow();
  // Once with the leader: says hello and waits for what comes of it.
  void ask_leader(Deadline deadline);
  void pause_while_busy();

  void visited(const std::shared_ptr<Connection>& from, const Message& message);
  void answered(const Message& message);
  void ended(const std::shared_ptr<Connection>& visit);
  void take_hello(const std::shared_ptr<Connection>& from, const Introduction& theirs);
  // What the worker that says hello is to be told, if anything.
  std::optional<Message> note_hello(const std::shared_ptr<Connection>& from,
                                    const Introduction& theirs);
  void take_welcome(std::vector<Introduction> all);
  void take_problem(const Status& why, bool told_by_others);

  void visit_missing(const std::stop_token& stop);
  void tell_who_is_missing();
  void note_failed_visit(int worker, const Status& why);
  // Those that this worker waits for.
  std::vector<int> missing() const;
  // Tells those who have come, and visits the others.
  void broadcast_error(const Status& why);

  const WorkerList workers_;
  const Options options_;
  const Deadline deadline_;
  const Clock::time_point began_ = Clock::now();
  Introduction own_;
  RareLog rare_log_;
  std::unique_ptr<Visits> visits_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_:
  std::map<int, Arrival> arrived_;  // at the leader
  AbsentWorkers absent_;
  std::vector<Introduction> all_;            // once everybody is there
  Status problem_;                           // the first
  bool told_ = false;                        // the problem came from others, who tell everybody
  std::string busy_;                         // what a leader said that has begun already
  std::shared_ptr<Connection> with_leader_;  // the visit that is waited for
  bool is_broken_ = false;                   // the group has begun and lost somebody
  bool is_over_ = false;                     // the group has begun

  std::unique_ptr<WorkerEndpoint> endpoint_;
  Thread visitor_;  // of the leader
};

}  // namespace cohort::internal
