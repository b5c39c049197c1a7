#pragma once

#include <map>
#include <tuple>

#include "base/mutex.h"
#include "coordinator/closures.h"
#include "coordinator/lower_to_worker.h"
#include "coordinator/session_graph.h"

namespace cohort::internal {

struct WorkerChannelOptions {
  int worker = 0;
  DeviceName home = {};  // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string address = {};
  std::string container = {};
  int64_t chief = 0;
  Credentials credentials = {};
  std::optional<std::chrono::milliseconds> function_timeout = std::nullopt;
  bool keep_results = false;
  // The device that still keeps a result; nullopt when no device does.
  std::function<std::optional<DeviceName>(const KeptOn&)> find_kept = {};
};

// The connection to one worker: a session on its server, which is the master of what the worker
// runs, and the functions that the worker has. Thread-safe.
class WorkerChannel {
 public:
  explicit WorkerChannel(WorkerChannelOptions options) : options_(std::move(options)) {}

  int worker() const { return options_.worker; }
  const std::string& address() const { return options_.address; }
  std::string task() const { return options_.home.split().first; }
  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return connected_ != nullptr && !connected_->is_worn_out();
  }
  // Opens a session when there is none, and replaces a session whose graph is worn out. Runs under
  // way end in the session that they began in. Throws Unavailable when the worker does not answer
  // soon.
  void open();
  // The IDs of a call, see kIdempotentUpdate.
  struct CallIds {
    Tensor servers;  // for parameter servers
    Tensor own;      // for the worker
  };
  Results run(const Closure& closure, const CallIds& ids);
  // The device that keeps results which were made in that state of the worker; nullopt when the
  // state was lost.
  std::optional<DeviceName> home_in(uint64_t state) const {
    const std::lock_guard lock(mutex_);
    return connected_ && state == state_ ? std::optional(options_.home) : std::nullopt;
  }
  // Ends the session. The next session gets all functions again and, if the worker has lost its
  // state, new iterators. Returns false when another thread has ended the session.
  bool drop(uint64_t generation, bool lost_state);
  // The number of the session, for reporting a failed run.
  uint64_t generation() const {
    const std::lock_guard lock(mutex_);
    return generation_;
  }
  // Whether that session was dropped or has lost its connection.
  bool is_gone(uint64_t generation) const {
    const std::lock_guard lock(mutex_);
    return generation != generation_ || !connected_ || connected_->session->is_lost();
  }
  // Makes all runs end with Cancelled.
  void cancel();
  // Has the worker, if it answers, forget all iterators, variables and results. Nothing runs.
  void clear();

 private:
  // Where each argument of a call is kept; empty when all arguments are fed.
  using Places = std::vector<std::optional<KeptPlace>>;
  // A function, the state that its arguments stand for, and where other arguments are kept.
  using Key = std::tuple<const Trace*, std::vector<const Resource*>, std::string>;
  // A function that the worker has.
  struct Lowered {
    std::weak_ptr<const Trace> trace;                      // of the key
    std::vector<std::weak_ptr<const Resource>> resources;  // of the key
    CallPtr call;
    int nodes;  // how many nodes the graph has for it

    // Whether the function, or state that it uses, is gone.
    bool is_dead() const;
  };
  // Guarded by lowering_, except for fields that name mutex_. mutex_ guards dead_nodes.
  struct Connected : SessionGraph {
    using SessionGraph::SessionGraph;
    uint64_t state = 0;
    NodeOutput call_id;
    NodeOutput own_call_id;
    NodeOutput keep;                            // the number of the call, and of calls to forget
    std::map<Key, Lowered> functions;           // guarded by mutex_
    std::map<std::string, NodeOutput> handles;  // by the name of the state
  };

  // A call that is ready to be made.
  struct Ready {
    std::shared_ptr<RemoteSession> session;
    CallPtr call;
    uint64_t state;
  };
  Places places_of(const Closure& closure) const;
  Ready prepare(const Closure& closure, const Places& places);
  // Opens a session in place of the one that cannot be used. The caller has lowering_.
  void open_session();
  // Throws Unavailable when the session was dropped.
  std::shared_ptr<Connected> connected() const;
  // Null when the worker does not have the function.
  CallPtr find_lowered(const Connected& at, const Key& key) const;
  // Throws Unavailable when the worker takes too long.
  CallPtr lower(Connected& to, const Closure& closure, const Places& places);
  // Has the worker forget state that nothing in this process uses any more.
  void release_state(Connected& to);
  // Drops the functions that are gone.
  void forget_dead(Connected& from);
  NodeOutput bind_iterator(Connected& to, const std::shared_ptr<const ElementSource>& source);
  // Makes the variable if the worker does not have it.
  NodeOutput bind_variable(Connected& to, const std::shared_ptr<const WorkerCell>& cell);
  std::vector<Tensor> values_of(const Closure& closure, const Places& places) const;
  // The numbers of the results that the worker will keep and forget.
  Tensor keep_numbers(const Closure& closure);

  const WorkerChannelOptions options_;
  Turn lowering_;  // of the thread that opens a session or adds a function
  // The iterators and variables that the worker has state for, by the names of the state; guarded
  // by lowering_, as the next.
  std::map<std::string, std::weak_ptr<const void>> bound_;
  bool cleared_ = false;

  mutable Mutex mutex_;                   // after lowering_
  std::shared_ptr<Connected> connected_;  // guarded by mutex_, as all below
  uint64_t generation_ = 1;
  uint64_t state_ = 1;  // counts how often the worker's state was lost
  std::shared_ptr<Unneeded> unneeded_ = std::make_shared<Unneeded>();
};

}  // namespace cohort::internal
