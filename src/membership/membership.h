#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/activity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "cohort/cluster.h"
#include "membership/bootstrap.h"
#include "membership/member_connections.h"
#include "rpc/heartbeat.h"

namespace cohort::internal {

// This worker's place in the group of all workers: it listens, finds the other workers, forms a
// group with them and says when one of them is lost. Bootstrap decides; this class has the
// connections, the threads and the clock. Thread-safe.
class Membership {
 public:
  struct Options {
    Credentials credentials = {};
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);
    size_t replicas = 1;
    std::string settings = {};            // other options that all workers must have alike
    std::string engine = {};              // of the collectives; empty: messages
    uint64_t generation = 0;              // the group that this worker was in before; 0: none
    std::string component = kMembership;  // what texts for the user begin with
  };
  // Waits for the other workers. Throws DeadlineExceeded with the names of the workers that are
  // missing, FailedPrecondition if a worker does not fit, and what prevents listening; the other
  // workers throw the same.
  Membership(WorkerList workers, Options options);
  ~Membership();  // leaves; the address is free afterwards

  const Group& group() const { return group_; }
  // How many of the workers are on this host.
  size_t workers_on_host() const;
  // Whether others have trained before and this worker has not: it needs their values.
  bool is_newcomer() const;

  // Calls `lost`, on another thread, for each worker that ends or is silent for longer than the
  // limit. Called once.
  using Lost = std::function<void(int rank, const Status& why)>;
  void watch(std::chrono::milliseconds silence_limit, const Lost& lost);
  // `lost` is not called afterwards.
  void end_watch() { heartbeat_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Actions = Bootstrap::Actions;
  struct Open {
    std::shared_ptr<Connection> connection = {};
    bool is_ended = false;
  };
  // Lets events of connections run until stop(): a connection may outlive the membership, because
  // its last event holds a reference to the connection while it runs.
  class EventGate {
   public:
    void run(const std::function<void()>& handle);
    void stop();

   private:
    Mutex mutex_;
    std::condition_variable_any changed_;
    bool is_over_ = false;  // guarded by mutex_, as the next
    int running_ = 0;
  };

  Member describe_self() const;
  void listen(const Member& self);
  void await_group();
  void set_group();
  void stop();
  void start_dialers();
  void run_dialer(const std::stop_token& stop);
  void dial(int worker);
  void accept(std::shared_ptr<Connection> connection);
  void open(std::shared_ptr<Connection> connection, std::optional<int> dialed);
  void received(uint64_t connection, const Message& message);
  void lost(uint64_t connection);
  // Hands an event to the machine, and does what the machine says.
  void handle(const std::function<Actions(Bootstrap&)>& event);
  void perform(const Actions& actions);
  void perform(const Bootstrap::Action& action);
  // Null if the connection has ended.
  std::shared_ptr<Connection> find(uint64_t connection) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(connection);
    return found != open_.end() ? found->second.connection : nullptr;
  }
  void drop_ended();
  // Logs which workers are missing, after 2 s and then after twice the time, and notes a long wait
  // in the process's Activity.
  void report_wait();
  Bootstrap::Time now() const;

  const WorkerList workers_;
  const Options options_;
  const Clock::time_point began_ = Clock::now();
  const PendingConnections pending_;
  const std::shared_ptr<EventGate> gate_ = std::make_shared<EventGate>();
  RareLog rare_log_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_:
  std::unique_ptr<Bootstrap> bootstrap_;
  bool is_finished_ = false;
  std::deque<int> to_dial_;
  uint64_t next_connection_ = 1;
  std::map<uint64_t, Open> open_;  // a connection is not destroyed in its own event

  // Of the thread that waits for the group:
  Clock::time_point next_report_ = began_ + std::chrono::seconds(2);
  std::vector<int> noted_;  // the missing workers in note_
  WaitNote note_;

  Group group_;  // constant once the constructor has returned, as the next
  std::vector<Member> members_;
  std::shared_ptr<Endpoint> endpoint_;
  std::vector<Thread> dialers_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace cohort::internal
