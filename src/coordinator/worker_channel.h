#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>

#include "cluster/remote_session.h"
#include "coordinator/closure_queue.h"

namespace cohort::internal {

struct WorkerChannelOptions {
  int worker = 0;
  DeviceName home = {};  // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string address = {};
  std::string container = {};
  Credentials credentials = {};
  std::chrono::milliseconds function_timeout{0};
};

// The way to one worker: a session on its server, which is the master of what the worker runs, and
// the functions that it has got. Thread-safe.
class WorkerChannel {
 public:
  explicit WorkerChannel(WorkerChannelOptions options) : options_(std::move(options)) {}

  int worker() const { return options_.worker; }
  const std::string& address() const { return options_.address; }
  std::string task() const { return options_.home.split().first; }
  bool is_open() const;
  // Opens a session when there is none. Throws Unavailable when the worker does not answer soon.
  void open();
  // Runs a closure. `claim` names it to parameter servers, see kOnce.
  std::vector<Tensor> run(const Closure& closure, const Tensor& claim);
  // Ends the session; the next one gets all functions again, and after `lost_state` new iterators.
  // False when somebody else did.
  bool drop(uint64_t generation, bool lost_state);
  // Of the session: what a failed run is to be reported with.
  uint64_t generation() const;
  // Ends what runs with Cancelled.
  void cancel();

 private:
  // A function with the state that its arguments stand for.
  using Key = std::pair<const Trace*, std::vector<const Resource*>>;
  struct Shipped {
    std::shared_ptr<const Trace> trace;                      // keeps the key's
    std::vector<std::shared_ptr<const Resource>> resources;  // the same
    int callable;
  };
  struct Connected {
    std::shared_ptr<GraphImpl> graph;
    std::shared_ptr<RemoteSession> session;
    Endpoint claim;
    std::map<Key, Shipped> functions;
    std::map<std::string, Endpoint> iterators;  // handles, by the name of the state
  };

  std::pair<std::shared_ptr<RemoteSession>, int> prepare(const Closure& closure);
  int ship_to(Connected& to, const Closure& closure);
  Endpoint bind_iterator(Connected& to, const ElementSource& source) const;

  const WorkerChannelOptions options_;
  mutable std::mutex mutex_;
  std::unique_ptr<Connected> connected_;  // guarded by mutex_, as all below
  uint64_t generation_ = 1;
  uint64_t state_ = 1;  // counts how often the worker's state was lost
  bool cleared_ = false;
};

}  // namespace cohort::internal
