#include "rpc/endpoint.h"

#include <cstdlib>

#include "base/log.h"
#include "base/raise.h"
#include "rpc/certificates.h"
#include "rpc/dialer.h"
#include "rpc/grpc_connection.h"
#include "rpc/listener.h"
#include "topology/address.h"
#include "transport/ending.h"
#include "transport/in_process.h"

namespace cohort::internal {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

std::string host_to_listen_at(const EndpointOptions& options) {
  if (!options.listen_host.empty()) return options.listen_host;
  return options.spans_hosts ? parse_address(options.self.address).host : kLoopback;
}

void check_exposure(const EndpointOptions& options, const std::string& host) {
  if (is_loopback(host) || options.credentials.has_certificates()) return;
  if (!options.credentials.insecure) {
    raise(Code::FailedPrecondition,
          "[Server] {} would listen at {} without certificates, where strangers can reach it; give "
          "it "
          "credentials, or set Credentials::insecure (COHORT_CREDENTIALS=insecure) on a network "
          "where nobody else is",
          options.self.name, host);
  }
  log_warning(
      "[Server] {} listens at {} without certificates (insecure): whoever reaches it can read and "
      "change what it does",
      options.self.name, host);
}

// The parts that an endpoint is made of, in the order in which they end.
class GrpcEndpoint : public Party {
 public:
  GrpcEndpoint(EndpointOptions options, Accept accept);
  ~GrpcEndpoint() override { GrpcEndpoint::stop(); }

  std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline) override;
  const Peer& self() const override { return options_.self; }
  void stop() override;

 private:
  void listen();
  void start(Accept accept);
  bool may_go(Way way) const { return options_.way == Way::Nearest || options_.way == way; }
  std::shared_ptr<Connection> connect_in_process(const std::string& address, Deadline deadline);

  EndpointOptions options_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Pump> pump_;
  std::unique_ptr<Dialer> dialer_;
  OpenConnections connections_;
  std::mutex mutex_;
  bool stopped_ = false;                                    // guarded by mutex_
  std::unique_ptr<InProcessNetwork::Listener> in_process_;  // guarded by mutex_
};

GrpcEndpoint::GrpcEndpoint(EndpointOptions options, Accept accept) : options_(std::move(options)) {
  check_credentials(options_.credentials, options_.self.name);
  if (options_.self.address.empty()) {
    pump_ = std::make_shared<Pump>(std::make_unique<grpc::CompletionQueue>());
  } else {
    listen();
  }
  const Greeting greeting{.peer = options_.self, .cluster = options_.cluster};
  dialer_ = std::make_unique<Dialer>(pump_, greeting, options_.credentials);
  if (listener_) start(std::move(accept));
}

void GrpcEndpoint::listen() {
  const HostPort wanted = parse_address(options_.self.address);
  const std::string host = host_to_listen_at(options_);
  check_exposure(options_, host);
  listener_ = std::make_unique<Listener>(Listener::Options{.host = host,
                                                           .port = wanted.port,
                                                           .credentials = options_.credentials,
                                                           .details = options_.details});
  options_.self.address = address_text(wanted.host, listener_->port());
  pump_ = listener_->pump();
}

void GrpcEndpoint::start(Accept accept) {
  const auto take = [this, accept = std::move(accept)](std::shared_ptr<Connection> connection) {
    connections_.add(connection);
    accept(std::move(connection));
  };
  const Greeting greeting{.peer = options_.self, .cluster = options_.cluster};
  listener_->start(std::make_shared<const Admission>(greeting, options_.credentials),
                   {.accept = take});
  if (may_go(Way::InProcess)) in_process_ = network_of_process().listen(options_.self, take);
}

std::shared_ptr<Connection> GrpcEndpoint::connect_in_process(const std::string& address,
                                                             Deadline deadline) {
  if (options_.way == Way::InProcess) {
    return network_of_process().connect(address, options_.self, deadline);
  }
  return may_go(Way::InProcess) ? network_of_process().try_connect(address, options_.self)
                                : nullptr;
}

std::shared_ptr<Connection> GrpcEndpoint::connect(const std::string& address, Deadline deadline) {
  parse_address(address);
  const PumpHold hold(*pump_);
  std::shared_ptr<Connection> connection = connect_in_process(address, deadline);
  if (!connection) {
    const Dialer::Answered answered = dialer_->dial(address, deadline);
    dialer_->stay(answered, deadline);
    const auto stream =
        std::make_shared<GrpcStream>(pump_, answered.call, options_.self, answered.from.peer);
    stream->open();
    connection = std::make_shared<GrpcConnection>(stream);
  }
  connections_.add(connection);
  return connection;
}

void GrpcEndpoint::stop() {
  std::unique_ptr<InProcessNetwork::Listener> in_process;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    in_process.swap(in_process_);
  }
  in_process.reset();
  dialer_->stop();
  connections_.close_all(server_stopped());
  if (listener_) listener_->stop();
  pump_->stop();
}

}  // namespace

Way way_from_environment() {
  const char* const value = std::getenv("COHORT_TRANSPORT");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty()) return Way::Nearest;
  if (name == "in-process") return Way::InProcess;
  if (name == "shared-memory") return Way::SharedMemory;
  if (name == "grpc") return Way::Grpc;
  raise(Code::InvalidArgument,
        "[Connect] COHORT_TRANSPORT is '{}'; it can be in-process, shared-memory or grpc", name);
}

std::unique_ptr<Party> make_endpoint(EndpointOptions options, Party::Accept accept) {
  return std::make_unique<GrpcEndpoint>(std::move(options), std::move(accept));
}

}  // namespace cohort::internal
