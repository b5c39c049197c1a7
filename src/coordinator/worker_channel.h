#pragma once

#include <condition_variable>
#include <map>
#include <stop_token>
#include <tuple>

#include "base/mutex.h"
#include "cluster/remote_session.h"
#include "coordinator/closure_queue.h"
#include "coordinator/released_state.h"
#include "coordinator/shipping.h"

namespace cohort::internal {

struct WorkerChannelOptions {
  int worker = 0;
  DeviceName home = {};  // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string address = {};
  std::string container = {};
  Credentials credentials = {};
  std::chrono::milliseconds function_timeout{0};
  bool keep_results = false;
  // The device that still keeps a result; nullopt when none does.
  std::function<std::optional<DeviceName>(const KeptOn&)> find_kept = {};
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
  // Opens a session when there is none, and another one in place of one whose graph has grown by
  // functions that are gone; runs under way end in the session that they began in.
  // Throws Unavailable when the worker does not answer soon.
  void open();
  // Names a call, see kOnce.
  struct Claims {
    Tensor servers;  // to parameter servers
    Tensor own;      // to the worker
  };
  Results run(const Closure& closure, const Claims& claims);
  // Where results are kept that were made in that state of the worker; nullopt when it was lost.
  std::optional<DeviceName> home_in(uint64_t state) const;
  // Ends the session; the next one gets all functions again, and after `lost_state` new iterators.
  // False when somebody else did.
  bool drop(uint64_t generation, bool lost_state);
  // Of the session: what a failed run is to be reported with.
  uint64_t generation() const;
  // Whether that session is of no use any more: its connection has ended, or it was dropped.
  bool is_gone(uint64_t generation) const;
  // Ends what runs with Cancelled.
  void cancel();

 private:
  // For each argument of a call where it is kept; empty when all are fed.
  using Places = std::vector<std::optional<KeptPlace>>;
  // A function with the state that its arguments stand for, and where others are kept.
  using Key = std::tuple<const Trace*, std::vector<const Resource*>, std::string>;
  using CallPointer = std::shared_ptr<const PreparedCall>;
  struct Shipped {
    std::weak_ptr<const Trace> trace;                      // the key's
    std::vector<std::weak_ptr<const Resource>> resources;  // the same
    CallPointer call;
    int nodes;  // that the graph has for it

    // Whether its function, or state that it uses, is gone.
    bool is_dead() const;
  };
  // Guarded by shipping_, but for what says mutex_.
  struct Connected {
    uint64_t state = 0;
    std::shared_ptr<GraphImpl> graph;
    std::shared_ptr<RemoteSession> session;
    NodeOutput claim;
    NodeOutput own_claim;
    NodeOutput keep;                            // the number of the call, and of those to forget
    std::map<Key, Shipped> functions;           // guarded by mutex_
    std::map<std::string, NodeOutput> handles;  // by the name of the state
    std::optional<StateReleaser> releaser;
    int dead_nodes = 0;  // of functions that are not there any more; guarded by mutex_

    // Whether most of the graph, here and on the worker, belongs to functions that are gone.
    bool is_worn_out() const;
  };

  // A call that is ready to be made.
  struct Ready {
    std::shared_ptr<RemoteSession> session;
    CallPointer call;
    uint64_t state;
  };
  Places places_of(const Closure& closure) const;
  Ready prepare(const Closure& closure, const Places& places);
  std::shared_ptr<Connected> connected() const;
  // A function that the worker has got; null when it has none.
  CallPointer find_shipped(const Connected& at, const Key& key) const;
  // Throws Unavailable when the worker takes too long.
  CallPointer ship_in_time(Connected& to, const Closure& closure, const Places& places);
  CallPointer ship_to(Connected& to, const Closure& closure, const Places& places);
  // Has the worker forget the state that nothing here stands for any more.
  void release_state(Connected& to);
  // Drops functions that are gone.
  void forget_dead(Connected& from);
  Destination destination(Connected& to, const Places& places);
  NodeOutput bind_iterator(Connected& to, const std::shared_ptr<const ElementSource>& source);
  // Makes the variable when the worker has none yet.
  NodeOutput bind_variable(Connected& to, const std::shared_ptr<const WorkerCell>& cell);
  void begin_variable(Connected& to, const WorkerCell& cell, NodeOutput handle);
  std::vector<Tensor> values_of(const Closure& closure, const Places& places) const;
  // What the worker is to keep, and to forget.
  Tensor keep_numbers(const Closure& closure);

  const WorkerChannelOptions options_;
  Turn shipping_;  // of the thread that opens a session or sends a function
  // What the worker has iterators and variables for, by the names of their state; guarded by
  // shipping_, as the next.
  std::map<std::string, std::weak_ptr<const void>> bound_;
  bool cleared_ = false;

  mutable Mutex mutex_;                   // after shipping_
  std::shared_ptr<Connected> connected_;  // guarded by mutex_, as all below
  uint64_t generation_ = 1;
  uint64_t state_ = 1;  // counts how often the worker's state was lost
  std::shared_ptr<Unneeded> unneeded_ = std::make_shared<Unneeded>();
};

}  // namespace cohort::internal
