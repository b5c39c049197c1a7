#pragma once

#include "cohort/internal/durations.h"
#include "cohort/internal/owned.h"
#include "cohort/session.h"

namespace cohort {

// ServerOptions configures a Server.
struct ServerOptions {
  // For sessions on this server that set no options. The credentials in it are not used.
  SessionOptions session = {};
  // What the server shows to other tasks and to clients, and demands of them. If all tasks of the
  // cluster are on one host, the server listens on the loopback interface only; otherwise it needs
  // certificates, or `insecure`.
  Credentials credentials = credentials_from_environment();
  // How long a task may be silent before it counts as lost. The end of a task is noticed at once.
  std::chrono::milliseconds silence_limit{10'000};
  // Whether the constructor starts the server.
  bool start = true;
  // Set for a worker that ClusterCoordinator::add_worker() adds later: the other tasks were started
  // with a cluster without it. Otherwise tasks with different clusters do not connect.
  bool joins_later = false;
};

// ServerStatus says what a server does at the moment.
struct ServerStatus {
  struct Session {
    uint64_t id = 0;
    std::string client = {};
    uint64_t steps = 0;  // started so far
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
  std::vector<Session> sessions = {};  // with this server as master
  uint64_t worker_sessions = 0;        // of any master
  uint64_t plans = 0;                  // registered by these worker sessions
  uint64_t running_steps = 0;
  std::vector<Peer> peers = {};
};

// Server makes this process one task of a cluster. It runs the parts of graphs that masters send it
// on the devices of this process, and is the master of the sessions that clients open on it. Its
// devices keep their state (variables, queues) when sessions end; sessions share state by its name.
//
//   Server server = Server::create_local_server();
//   Session remote(graph, server.target());
//   server.stop();
//
// A process may have several servers; each has its own state. Thread-safe.
class Server {
 public:
  // make_server_def() completes what `task` leaves out. Throws InvalidArgument if the address has
  // no valid port, Internal if the cluster lacks the job, Unknown if the address is in use.
  explicit Server(const ClusterSpec& cluster, const ServerTask& task = {},
                  const ServerOptions& options = {});
  explicit Server(const ServerDef& def, const ServerTask& task = {},
                  const ServerOptions& options = {});
  // Calls stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns the one task of a cluster with one job, "localhost", at a port of the system's choice.
  static Server create_local_server(const ServerOptions& options = {});

  // Starts to serve, unless it has started. Throws FailedPrecondition after stop().
  void start();
  // Starts the server if necessary. Returns when it has stopped: by stop(), by SIGTERM, or because
  // a coordinator shut the cluster down. After SIGTERM the server goes on until clients have closed
  // their sessions, for at most 4 s, so that a training that got the signal, too, can be saved. A
  // client or a master that dies does not stop the server.
  void join();
  // Ends all sessions and connections. The port is free on return.
  void stop();

  // "grpc://host:port", for Session.
  std::string target() const;
  // With the port that the system chose in place of port 0.
  ServerDef server_def() const;
  ServerStatus status() const;

 private:
  internal::Owned<internal::TaskServer> impl_;
};

// Ends all sessions of the server at `target`, and deletes the state of these containers on all
// tasks of its cluster. Empty: the default container, which holds all state that names no other.
void reset(std::string_view target, const std::vector<std::string>& containers = {});
// Returns the status of the server at `target`.
ServerStatus server_status(std::string_view target);

}  // namespace cohort
