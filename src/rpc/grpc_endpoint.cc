#include "rpc/grpc_endpoint.h"

#include <atomic>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/text.h"
#include "rpc/certificates.h"
#include "rpc/dialer.h"
#include "rpc/grpc_connection.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"
#include "rpc/listener.h"
#include "topology/address.h"
#include "transport/in_process.h"
#include "transport/shared_memory.h"

namespace cohort::internal {
namespace {

// How long a caller may take to take up an offer of shared memory.
constexpr std::chrono::seconds kTimeToCome{10};

// The parts of an endpoint, in the order of their construction.
class GrpcEndpoint : public Endpoint {
 public:
  GrpcEndpoint(EndpointOptions options, Accept accept)
      : options_(std::move(options)), accept_(std::move(accept)) {
    options_.self.cluster = options_.cluster;
    options_.self.host = host_identity();
    if (options_.self.build.empty()) options_.self.build = COHORT_VERSION;
    check_credentials(options_.credentials, options_.self.name);
    if (options_.self.address.empty()) {
      queue_thread_ =
          std::make_shared<CompletionQueueThread>(std::make_unique<grpc::CompletionQueue>());
    } else {
      listen();
    }
    dialer_ = std::make_unique<Dialer>(queue_thread_, handshake(), options_.credentials);
    if (listener_) start();
  }

  ~GrpcEndpoint() override { GrpcEndpoint::stop(); }

  std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline,
                                      uint64_t generation,
                                      const std::function<bool()>& is_wanted) override {
    check_no_mutex_held("connects");
    check_target(address, options_.credentials);
    Peer self = options_.self;
    self.generation = generation;
    const QueueHold hold(*queue_thread_);
    std::shared_ptr<Connection> connection = connect_in_process(address, deadline, self);
    if (!connection) {
      const Dialer::Answered answered = dialer_->dial(address, deadline, generation, is_wanted);
      connection = connect_by_memory(answered, deadline, self);
      if (!connection) connection = connect_by_grpc(answered, deadline);
    }
    connections_.add(connection);
    return connection;
  }

  const Peer& self() const override { return options_.self; }

  void stop() override {
    if (stopped_.exchange(true)) return;
    in_process_.reset();
    dialer_->stop();
    connections_.close_all(server_stopped());
    if (listener_) listener_->stop();
    // Until the queue thread has stopped, it may answer a handshake with an offer of memory_.
    queue_thread_->stop();
    memory_.reset();
  }

 private:
  void listen() {
    const HostPort wanted = parse_address(options_.self.address);
    listener_ = std::make_unique<Listener>(Listener::Options{.host = host_to_listen_at(options_),
                                                             .port = wanted.port,
                                                             .credentials = options_.credentials,
                                                             .details = options_.details});
    options_.self.address = address_text(wanted.host, listener_->port());
    queue_thread_ = listener_->queue_thread();
  }

  void start() {
    const auto accept = [this](std::shared_ptr<Connection> connection) {
      take(std::move(connection));
    };
    if (may_go(TransportKind::SharedMemory)) memory_ = std::make_unique<SharedMemoryListener>();
    listener_->start(handshake(), {.accept = accept,
                                   .fill_answer = [this](const Handshake& from, Handshake& answer) {
                                     offer_memory(from, answer);
                                   }});
    if (may_go(TransportKind::InProcess))
      in_process_ = network_of_process().listen(options_.self, accept);
  }

  // Offers shared memory to a caller that is on this host and may use it.
  void offer_memory(const Handshake& from, Handshake& answer) {
    if (!memory_ || !from.shares_memory || from.peer.host != answer.peer.host) return;
    answer.memory_socket = memory_->name();
    answer.memory_nonce = memory_->expect(
        options_.self, from.peer, std::chrono::steady_clock::now() + kTimeToCome,
        [this](std::shared_ptr<Connection> connection) { take(std::move(connection)); });
  }

  void take(std::shared_ptr<Connection> connection) {
    connections_.add(connection);
    accept_(std::move(connection));
  }

  bool may_go(TransportKind transport) const {
    return options_.transport == TransportKind::Nearest || options_.transport == transport;
  }

  Handshake handshake() const {
    return {.peer = options_.self, .shares_memory = may_go(TransportKind::SharedMemory)};
  }

  std::shared_ptr<Connection> connect_in_process(const std::string& address, Deadline deadline,
                                                 const Peer& self) {
    // A task has threads that read; a client has only threads that wait.
    const auto hand_off = options_.self.address.empty() ? InProcessNetwork::HandOff::Directly
                                                        : InProcessNetwork::HandOff::Queued;
    std::shared_ptr<Connection> connection;
    if (options_.transport == TransportKind::InProcess) {
      connection = network_of_process().connect(address, self, deadline, hand_off);
    } else if (may_go(TransportKind::InProcess)) {
      connection = network_of_process().try_connect(address, self, hand_off);
    }
    if (connection) check_fits(*connection);
    return connection;
  }

  // A connection inside this process has no handshake of its own.
  void check_fits(Connection& connection) {
    const Peer& peer = connection.peer();
    const Status problem = capture_status([&] { check_handshake({.peer = peer}, handshake()); });
    if (problem.ok()) return;
    connection.close(problem);
    throw Error(problem);
  }

  // Null when shared memory is not possible. Throws then if no other transport is allowed.
  std::shared_ptr<Connection> connect_by_memory(const Dialer::Answered& answered, Deadline deadline,
                                                const Peer& self) {
    if (!may_go(TransportKind::SharedMemory)) return nullptr;
    std::shared_ptr<Connection> connection;
    const Handshake& from = answered.from;
    // Shared memory does not work between two containers that share only the kernel, for example.
    const Status problem = capture_status([&] {
      if (from.memory_socket.empty()) return;  // nothing was offered
      connection =
          connect_shared_memory(from.memory_socket, from.memory_nonce, self, from.peer, deadline);
    });
    if (connection || options_.transport == TransportKind::SharedMemory) dialer_->leave(answered);
    if (connection) return connection;
    const std::string& name = from.peer.name;
    if (!problem.ok())
      log_info("[Connect] no shared memory with {}: {}", name, problem.to_string());
    if (options_.transport == TransportKind::SharedMemory) {
      throw Error(
          {.code = Code::FailedPrecondition,
           .message = fmt::format(
               "[Connect] shared memory with {} at {} is not possible: {}", name, from.peer.address,
               problem.ok() ? "it is on another host, or does not offer it" : problem.message)});
    }
    return nullptr;
  }

  std::shared_ptr<Connection> connect_by_grpc(const Dialer::Answered& answered, Deadline deadline) {
    dialer_->stay(answered, deadline);
    const auto stream = std::make_shared<GrpcStream>(queue_thread_, answered.call, options_.self,
                                                     answered.from.peer);
    stream->open();
    return std::make_shared<GrpcConnection>(stream);
  }

  EndpointOptions options_;
  const Accept accept_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<CompletionQueueThread> queue_thread_;
  std::unique_ptr<Dialer> dialer_;
  OpenConnections connections_;
  std::unique_ptr<SharedMemoryListener> memory_;
  std::unique_ptr<InProcessNetwork::Listener> in_process_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

TransportKind transport_from_environment() {
  const std::string name = environment_variable("COHORT_TRANSPORT").value_or("");
  if (name.empty()) return TransportKind::Nearest;
  if (name == "in-process") return TransportKind::InProcess;
  if (name == "shared-memory") return TransportKind::SharedMemory;
  if (name == "grpc") return TransportKind::Grpc;
  raise(Code::InvalidArgument,
        "[Connect] COHORT_TRANSPORT is '{}'; it must be in-process, shared-memory or grpc", name);
}

std::unique_ptr<Endpoint> make_endpoint(EndpointOptions options, Endpoint::Accept accept) {
  // A server keeps its lock while it begins to listen, so that early requests wait.
  if (options.self.address.empty()) check_no_mutex_held("makes an endpoint");
  require_descriptors_for_grpc();
  return std::make_unique<GrpcEndpoint>(std::move(options), std::move(accept));
}

}  // namespace cohort::internal
