#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "cohort/cluster.h"
#include "coordinator/group_updates.h"
#include "coordinator/session_graph.h"
#include "graph/function_graph.h"

namespace cohort::internal {

// A number larger than those of earlier chiefs, unless the clocks of their machines were ahead. In
// that case the servers refuse this chief with an error.
int64_t chief_number();

struct ParameterServersOptions {
  std::string container;           // of the variables
  int64_t chief = chief_number();  // tells this chief from an earlier one
  Credentials credentials = {};
  std::chrono::milliseconds connect_timeout{60'000};  // to find a server the first time
  // How long a server may say nothing, and may take to be found again after it was lost.
  std::chrono::milliseconds silence_limit = SessionOptions().silence_limit;
};

// The chief's own connections to the parameter servers: outside scheduled functions it reads and
// writes variables through a session on each server. Thread-safe.
class ParameterServers : public std::enable_shared_from_this<ParameterServers> {
 public:
  ParameterServers(const ClusterSpec& cluster, ParameterServersOptions options);
  // Servers that were taken over and still answer forget the state of the container.
  ~ParameterServers();

  size_t size() const { return connections_.size(); }
  const DeviceName& device(size_t ps) const { return connections_[ps]->device; }
  const std::string& container() const { return options_.container; }
  int64_t chief() const { return options_.chief; }

  // A name like `name` that no other variable has.
  std::string unique_name(const std::string& name);
  // The RemoteCell of the variable with this unique name holds the lease. When the lease ends, the
  // server forgets the variable, at the latest before the next variable is made there. Null when
  // the device is not a parameter server.
  using Lease = std::shared_ptr<const void>;
  Lease lease(const DeviceName& device, const std::string& name) {
    return lease_in(options_.container, device, name);
  }
  // The same for an update or an accumulator, which the server forgets at the latest before the
  // next update is made.
  Lease lease_update(const DeviceName& device, const std::string& name) {
    return lease_in(gathering_container(options_.container), device, name);
  }

  // Finds all servers and clears what an earlier chief kept there. Throws Unavailable, naming the
  // missing servers, and FailedPrecondition if a later chief has taken them over.
  void take_over();

  // Whether a server still has its variables; `task` is "/job:ps/replica:0/task:0".
  // Gone: no process listens at its address; Silent: one does, and does not answer.
  enum class Condition { Sound, Restarted, Gone, Silent };
  Condition examine(const std::string& task);
  // The task of a server that was restarted; "" when no server was.
  std::string find_restarted();
  // Accepts the restarted server in place of the old one, although it is empty.
  void accept(const std::string& task) { accept(connection(task)); }

  // A function of `values` that runs on a server. `make` traces it the first time that `key` is
  // used.
  struct Call {
    std::string key;
    std::function<std::shared_ptr<const GraphFunction>()> make;
    std::vector<Tensor> values = {};
    std::vector<std::string> uses = {};  // leased names; the plan ends with the first of them
    // The ID of a call that may be repeated, see kIdempotentUpdate.
    std::optional<Tensor> call_id = std::nullopt;
    std::chrono::milliseconds connect_limit{0};  // to find the server; 0 = as the options say
  };
  std::vector<Tensor> run(const DeviceName& device, const Call& call);

  // Makes the update with the gradients that have come, at least one for each variable. The update
  // is idempotent for a call ID. Throws Unavailable when the server is silent for the
  // silence_limit. An update may take longer while the server answers.
  void make(const GroupUpdate& update, const Tensor& call_id);
  // Forgets the gradients that wait for updates.
  void forget_gathered();
  // Closes the sessions. The next call opens a new one.
  void close_sessions() {
    for (const auto& connection : connections_) replace(*connection, nullptr);
  }

 private:
  // A session and the calls that are prepared in it.
  struct Connected : SessionGraph {
    using SessionGraph::SessionGraph;
    struct Prepared {
      CallPtr call;
      std::vector<std::string> uses;
      int nodes;  // how many nodes the graph has for it
    };
    std::map<std::string, Prepared> callables = {};  // by key
  };
  using ConnectedPtr = std::unique_ptr<Connected>;
  // Names whose leases have ended, by container.
  using Released = std::map<std::string, std::vector<std::string>>;
  struct ServerConnection {
    DeviceName device;
    std::string address;
    std::atomic<uint64_t> incarnation{0};  // of the server that has the variables; 0: unknown
    std::atomic<bool> was_open{false};
    Turn turn = {};
    ConnectedPtr connected = {};  // guarded by turn

    Mutex mutex = {};        // after turn
    Released released = {};  // guarded by mutex, as the next
    // The outcome for the thread that connects. Not valid while no thread does.
    std::shared_future<Status> connecting = {};
  };
  // A function that is ready to run.
  struct Ready {
    std::shared_ptr<RemoteSession> session = {};
    CallPtr call = {};
  };

  ServerConnection* find_connection(const DeviceName& device);  // null when there is none
  ServerConnection& connection(const DeviceName& device);
  ServerConnection& connection(const std::string& task);
  void accept(ServerConnection& connection) {
    ConnectedPtr opened = open(connection, options_.connect_timeout);
    connection.incarnation = opened->session->server_incarnation();
    replace(connection, std::move(opened));
  }
  Lease lease_in(const std::string& container, const DeviceName& device, const std::string& name);
  // If it throws, `ready` has the session, if there was one.
  void prepare(ServerConnection& connection, const Call& call, Ready& ready);
  // The caller has the connection's turn, and there is a session.
  CallPtr find_or_add(const ServerConnection& connection, const Call& call);
  CallPtr add(const ServerConnection& connection, const Call& call) const;

  // A thread that connects does not have the turn, so callers with a connection do not wait for it.
  ConnectedPtr open(const ServerConnection& connection, std::chrono::milliseconds limit) const;
  static void replace(ServerConnection& connection, ConnectedPtr opened);
  // Finds a server again, or for the first time. Throws Unavailable at once when a known server
  // refuses the connection: its variables are lost.
  ConnectedPtr open_again(const ServerConnection& connection,
                          std::chrono::milliseconds limit) const;
  // Opens a session, or waits for another thread that opens one.
  void connect(ServerConnection& connection, const Call& call);

  // Removes the session that has failed from the connection.
  static void drop(ServerConnection& connection, const std::shared_ptr<RemoteSession>& failed);

  // Has the server forget what was released, and drops the calls that used it. The caller has the
  // connection's turn, and there is a session.
  void forget_released(ServerConnection& connection);
  void forget_released_everywhere();

  const ParameterServersOptions options_;
  std::vector<std::unique_ptr<ServerConnection>> connections_;
  std::atomic<bool> took_over_ = false;
  Mutex mutex_;
  std::set<std::string> names_;         // given out; guarded by mutex_, as the next
  std::map<std::string, int> numbers_;  // the last number that was appended to a name
};

}  // namespace cohort::internal
