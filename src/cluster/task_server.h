#pragma once

#include <condition_variable>
#include <memory>

#include "base/mutex.h"
#include "base/timers.h"
#include "cluster/master.h"
#include "cluster/peer_quotas.h"
#include "cohort/server.h"

namespace cohort::internal {

// The implementation of a Server: an endpoint that others connect to, a master and a worker.
class TaskServer {
 public:
  TaskServer(ServerDef def, ServerOptions options);
  ~TaskServer();

  void start();
  void join();
  void stop();

  std::string target() const;
  ServerDef server_def() const;
  ServerStatus status() const;

 private:
  enum class State { New, Started, Stopped };

  void receive(const Link::Pointer& from, const Message& message);
  void run_step(const Link::Pointer& from, const Message& message);
  void run_plan(const Link::Pointer& from, const Message& message);
  // Tensors that came with that message.
  void arrive(const Link::Pointer& from, const Message& message, StepTensors tensors);
  void plan_done(const Link::Pointer& from, const Message& message);
  // Serves the request on a thread of the pool, and answers.
  void receive_request(const Link::Pointer& from, const Message& message);
  Answer answer_to(const Link::Pointer& from, const Message& message);
  void link_ended(const Link::Pointer& link, const Status& why);
  void request_stop();
  // Adds waits that take long to the process's Activity, and comes again after a while.
  void note_waits();

  ServerDef def_;  // guarded by mutex_ until started
  const ServerOptions options_;
  std::shared_ptr<Peers> peers_;
  std::unique_ptr<PeerQuotas> quotas_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
  std::shared_ptr<Endpoint> endpoint_;
  int stop_event_;  // readable once the server is to stop

  mutable Mutex mutex_;
  State state_ = State::New;  // guarded by mutex_, as all below
  size_t open_requests_ = 0;
  std::condition_variable_any answered_;

  std::vector<WaitNote> wait_notes_;  // written by the thread of the next one alone
  Timers watch_;
};

}  // namespace cohort::internal
