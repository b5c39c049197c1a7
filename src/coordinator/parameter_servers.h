#pragma once

#include <atomic>
#include <chrono>
#include <future>
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
  std::chrono::milliseconds connect_timeout{60'000};  // to find a server the first time
  // How long a server may say nothing, may take to be found again after it was lost, and may take
  // for an update whose gradients it has.
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
  // forgets the variable, at the latest before the next one is made there. Null when the device is
  // no parameter server.
  using Lease = std::shared_ptr<const void>;
  Lease lease(const DeviceName& device, const std::string& name);
  // The same for an update of that name and its accumulators, which the server forgets at the
  // latest before the next update is made.
  Lease lease_update(const DeviceName& device, const std::string& name);

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
    std::vector<std::string> uses = {};  // names that are leased; with one of them the plan goes
    // Where the call may be repeated: what tells it from its repetition, see kOnce.
    std::optional<Tensor> claim = std::nullopt;
    std::chrono::milliseconds limit{0};     // of the run, see make(); 0 = none
    std::chrono::milliseconds patience{0};  // to find the server; 0 = as the options say
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
  // A session, and what uses it.
  struct Connected {
    std::shared_ptr<GraphImpl> graph = {};
    std::shared_ptr<RemoteSession> session = {};
    std::optional<StateReleaser> variables = {};
    std::optional<StateReleaser> gathered = {};
    struct Prepared {
      std::shared_ptr<const PreparedCall> call;
      std::vector<std::string> uses;
      int nodes;  // that the graph has for it
    };
    std::map<std::string, Prepared> callables = {};
    int dead_nodes = 0;  // of those that are not there any more

    // Whether most of the graph, here and on the server, belongs to calls that are gone.
    bool is_worn_out() const;
  };
  using ConnectedPtr = std::unique_ptr<Connected>;
  // Names of what nothing here stands for any more.
  struct Released {
    std::vector<std::string> variables = {};
    std::vector<std::string> gathered = {};

    bool empty() const { return variables.empty() && gathered.empty(); }
    bool contains(const std::string& name) const;
    void append(const Released& others);
  };
  struct Channel {
    DeviceName device;
    std::string address;
    std::atomic<uint64_t> incarnation{0};  // of the server that has the variables; 0: unknown
    std::atomic<bool> was_open{false};
    Turn turn = {};
    ConnectedPtr connected = {};  // guarded by turn

    Mutex mutex = {};        // after turn
    Released released = {};  // guarded by mutex, as the next
    // How the thread that connects will fare. Not valid while none does.
    std::shared_future<Status> connecting = {};
  };
  // A function that is ready to run.
  struct Ready {
    std::shared_ptr<RemoteSession> session = {};
    std::shared_ptr<const PreparedCall> call = {};
  };

  Channel* find_channel(const DeviceName& device);  // null when there is none
  Channel& channel(const DeviceName& device);
  Channel& channel(const std::string& task);
  void accept(Channel& channel);
  Lease lease_in(std::vector<std::string> Released::*names, const DeviceName& device,
                 const std::string& name);
  // `ready` has the session when it throws, if there was one.
  void prepare(Channel& channel, const Call& call, Ready& ready);
  // The same; a server that takes too long is Unavailable.
  void prepare_in_time(Channel& channel, const Call& call, Ready& ready);
  // The caller of these two has the channel's turn, and there is a session.
  std::shared_ptr<const PreparedCall> find_or_add(const Channel& channel, const Call& call);
  void add_callable(const Channel& channel, const Call& call);

  // Those who connect have no turn: who needs no connection does not wait for them.
  ConnectedPtr open(const Channel& channel, std::chrono::milliseconds limit) const;
  static void replace(Channel& channel, ConnectedPtr opened);
  // Finds a server again, or for the first time. Throws Unavailable at once when the server refuses
  // the connection: its variables are lost.
  ConnectedPtr open_again(const Channel& channel, std::chrono::milliseconds limit) const;
  // Opens a session, or waits for another thread that does.
  void connect(Channel& channel, const Call& call);
  std::chrono::milliseconds patience_for(const Channel& channel, const Call& call) const;

  // Leaves the channel without the session that has failed.
  static void drop(Channel& channel, const std::shared_ptr<RemoteSession>& failed);

  // Has the server forget what was released, and drops the calls that used it. The caller has the
  // channel's turn.
  void forget_released(Channel& channel);
  void forget_released_everywhere();

  const ParameterServersOptions options_;
  std::vector<std::unique_ptr<Channel>> channels_;
  Mutex mutex_;
  std::set<std::string> names_;         // given out; guarded by mutex_, as the next
  std::map<std::string, int> numbers_;  // the last one put behind a name
};

}  // namespace cohort::internal
