#pragma once

#include <grpcpp/server.h>

#include "cohort/cluster.h"
#include "rpc/completion_queue_thread.h"
#include "rpc/handshake.h"
#include "rpc/stream_call.h"
#include "transport/connection.h"

namespace cohort::internal {

struct EndpointOptions;

// The host at which the endpoint listens. Throws FailedPrecondition if other hosts reach it there
// and it has no certificates, unless its credentials say `insecure`; then the log warns.
std::string host_to_listen_at(const EndpointOptions& options);

// A gRPC server on one port: admits callers, before any other code sees them, and makes connections
// of their calls.
class Listener {
 public:
  struct Options {
    std::string host = {};
    int port = 0;
    Credentials credentials = {};
    std::function<std::string()> details = {};  // for status requests
  };
  // Listens, and accepts nothing yet. Throws Unknown when the port cannot be used.
  explicit Listener(Options options);
  ~Listener();

  int port() const { return port_; }
  const std::shared_ptr<CompletionQueueThread>& queue_thread() const { return queue_thread_; }

  // `accept` gets the accepted connections. `fill_answer` completes the answer to a handshake.
  struct Handlers {
    Endpoint::Accept accept = {};
    std::function<void(const Handshake& from, Handshake& answer)> fill_answer = {};
  };
  void start(Handshake self, Handlers handlers);

  // The port is free when stop() returns. The queue thread goes on.
  void stop();

 private:
  void request_call();
  void on_call(const std::shared_ptr<ServerCall>& call);
  // Throws Unauthenticated if the token is missing or wrong.
  void check_token(const grpc::ServerContext& call) const;
  // The handshake of the caller. Throws as check_token, InvalidArgument (no handshake),
  // PermissionDenied (certificate of another task), FailedPrecondition (other protocol or cluster).
  Handshake admit(const grpc::ServerContext& call) const;
  void answer_handshake(const std::shared_ptr<ServerCall>& call);
  void answer_status(const std::shared_ptr<ServerCall>& call);
  void refuse(const std::shared_ptr<ServerCall>& call, const Status& why);

  const Options options_;
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<CompletionQueueThread> queue_thread_;
  const Deadline started_ = std::chrono::steady_clock::now();
  // Set by start(), constant afterwards:
  Handshake self_;
  Handlers handlers_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace cohort::internal
