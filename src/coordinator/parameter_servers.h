#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "cluster/remote_session.h"
#include "cohort/cluster.h"
#include "coordinator/group_updates.h"
#include "coordinator/released_state.h"
#include "graph/function_graph.h"

namespace cohort::internal {

struct ParameterServersOptions {
  std::string container;  // that the variables are in
  Credentials credentials = {};
  std::chrono::milliseconds connect_timeout{60'000};
  // How long a server may take for an update whose gradients it has.
  std::chrono::milliseconds silence_limit = SessionOptions().silence_limit;
};

// The chief's own way to what is on the parameter servers: outside of scheduled functions it reads
// and writes variables through a session on each. Thread-safe.
class ParameterServers : public std::enable_shared_from_this<ParameterServers> {
 public:
  ParameterServers(const ClusterSpec& cluster, ParameterServersOptions options);

  size_t size() const { return channels_.size(); }
  const DeviceName& device(size_t ps) const { return channels_[ps]->device; }
  const std::string& container() const { return options_.container; }

  // A name like `name` that no other variable has.
  std::string unique_name(const std::string& name);
  // What stands here for the variable of that unique name holds this. When it lets go, the server
  // forgets the variable, at the latest before the next one is made there.
  using Lease = std::shared_ptr<const void>;
  Lease lease(const DeviceName& device, const std::string& name);

  // Finds all of them and forgets what an earlier chief kept there. Throws Unavailable, naming
  // those that are missing.
  void take_over();

  // Whether a server still has what it was given; `task` is "/job:ps/replica:0/task:0".
  // Gone: no process listens at its address; Silent: one does, and does not answer.
  enum class Condition { Sound, Restarted, Gone, Silent };
  Condition examine(const std::string& task);
  // The task of a server that was restarted; "" when none was.
  std::string find_restarted();
  // From here on the server that is there now counts, empty as it is.
  void accept(const std::string& task);

  // A function of `values` that is to run on one of them. `make` traces it the first time that
  // `key` is used.
  struct Call {
    std::string key;
    std::function<std::shared_ptr<const GraphFunction>()> make;
    std::vector<Tensor> values = {};
    std::vector<std::string> variables = {};  // unique names; with one of them the plan goes
    // Where the call may be repeated: what tells it from its repetition, see kOnce.
    std::optional<Tensor> claim = std::nullopt;
    std::chrono::milliseconds limit{0};     // of the run, see make(); 0 = none
    std::chrono::milliseconds patience{0};  // to find the server; 0 = the connect_timeout
  };
  std::vector<Tensor> run(const DeviceName& device, const Call& call);

  // Makes the update with the gradients that are there, at least one for each variable. Made again
  // with the same claim, it changes nothing that it has changed before. Throws Unavailable after
  // the silence_limit: heartbeats may still pass where the network has cut the connection.
  void make(const GroupUpdate& update, const Tensor& claim);
  // Forgets the gradients that wait for updates.
  void forget_gathered();
  // The next call opens new ones.
  void close_sessions();

 private:
  struct Channel {
    DeviceName device;
    std::string address;
    std::atomic<uint64_t> incarnation{0};  // of the server that has the variables; 0: unknown
    Turn turn = {};
    std::shared_ptr<GraphImpl> graph = {};  // guarded by turn, as all below
    std::shared_ptr<RemoteSession> session = {};
    std::optional<StateReleaser> releaser = {};
    struct Prepared {
      std::shared_ptr<const PreparedCall> call;
      std::vector<std::string> variables;
      int nodes;  // that the graph has for it
    };
    std::map<std::string, Prepared> callables = {};
    int dead_nodes = 0;  // of those that are not there any more

    Mutex released_mutex = {};               // after turn
    std::vector<std::string> released = {};  // variables; guarded by released_mutex
  };
  // A function that is ready to run.
  struct Ready {
    std::shared_ptr<RemoteSession> session = {};
    std::shared_ptr<const PreparedCall> call = {};
  };

  Channel& channel(const DeviceName& device);
  Channel& channel(const std::string& task);
  Ready prepare(Channel& channel, const Call& call);
  // The same; a server that takes too long is Unavailable.
  Ready prepare_in_time(Channel& channel, const Call& call);
  void open(Channel& channel, std::chrono::milliseconds limit);
  // Leaves the channel without a session and what uses one.
  static std::shared_ptr<RemoteSession> take_session(Channel& channel);
  // Has the server forget what was released, and drops the calls that used it.
  void forget_released(Channel& channel);

  const ParameterServersOptions options_;
  std::vector<std::unique_ptr<Channel>> channels_;
  Mutex mutex_;
  std::set<std::string> names_;         // given out; guarded by mutex_, as the next
  std::map<std::string, int> numbers_;  // the last one put behind a name
};

}  // namespace cohort::internal
