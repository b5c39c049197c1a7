#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/credentials.h"
#include "cohort/session.h"

namespace cohort {

namespace internal {
class TaskServer;
}

struct ServerOptions {
  // For sessions on this server that do not say otherwise. Its credentials are not used.
  SessionOptions session = {};
  // What is shown to other tasks and to clients, and demanded of them. A server of a cluster on one
  // host listens on the loopback interface only; one that others reach needs certificates, or
  // `insecure`.
  Credentials credentials = credentials_from_environment();
  // A task that is silent for longer is given up. One that has ended is noticed at once.
  std::chrono::milliseconds silence_limit{10'000};
  // Whether the constructor starts it.
  bool start = true;
  // The other tasks were started with a cluster that does not have this one: a worker that a
  // ClusterCoordinator is told of later. Otherwise tasks of different clusters do not connect.
  bool joins_later = false;
};

// What a server does at the moment.
struct ServerStatus {
  struct Session {
    uint64_t id = 0;
    std::string client = {};
    uint64_t steps = 0;  // begun so far
  };
  struct Peer {
    std::string name = {};
    std::string transport = {};  // "in-process", "shared-memory", "grpc"
    uint64_t messages_sent = 0;
    uint64_t messages_received = 0;
    uint64_t bytes_sent = 0;
    uint64_t bytes_received = 0;
  };
  std::string task = {};  // "/job:ps/replica:0/task:0"
  std::vector<std::string> devices = {};
  std::vector<Session> sessions = {};  // whose master it is
  uint64_t worker_sessions = 0;        // of any master, that it runs parts for
  uint64_t plans = 0;                  // registered by those
  uint64_t running_steps = 0;
  std::vector<Peer> peers = {};
};

// One task of a cluster. It runs the parts of graphs that masters give it on the devices of this
// process, and is itself the master of the sessions that are opened on it. Its devices keep their
// state (variables, queues) when sessions end: sessions that name the same thing share it.
//
// Several servers may live in one process; each has its own state. Thread-safe.
class Server {
 public:
  // What `task` leaves out follows from the cluster, see make_server_def. Throws InvalidArgument
  // for an address without a port or with one that cannot be, Internal for a job that the cluster
  // does not have, Unknown when the address is in use.
  explicit Server(const ClusterSpec& cluster, const ServerTask& task = {},
                  const ServerOptions& options = {});
  explicit Server(const ServerDef& def, const ServerTask& task = {},
                  const ServerOptions& options = {});
  // Stops as stop() does.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // A cluster of one job, "localhost", with one task, at a port that the system chooses.
  static Server create_local_server(const ServerOptions& options = {});

  // Begins to serve. Harmless when it does. FailedPrecondition after stop().
  void start();
  // Returns when the server has stopped, at once when it has: by stop(), by SIGTERM, or because a
  // coordinator shut the cluster down. A client or a master that dies does not end it.
  void join();
  // Ends all sessions and connections. The port is free when it returns.
  void stop();

  // "grpc://host:port", for Session.
  std::string target() const;
  // With the port that the system chose where 0 was given.
  ServerDef server_def() const;
  ServerStatus status() const;

 private:
  std::unique_ptr<internal::TaskServer> impl_;
};

// Ends all sessions of the server at `target` and forgets the state of these containers on all
// tasks of its cluster; of the default container, which all state is in unless told otherwise, when
// the list is empty.
void reset(std::string_view target, const std::vector<std::string>& containers = {});
// What the server at `target` says of itself.
ServerStatus server_status(std::string_view target);

}  // namespace cohort
