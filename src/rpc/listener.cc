#include "rpc/listener.h"

#include <fmt/format.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/raise.h"
#include "rpc/certificates.h"
#include "rpc/grpc_connection.h"
#include "rpc/grpc_endpoint.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"
#include "rpc/status_call.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";  // the state column of /proc/net/tcp

// The sockets that listen at a port, as the system numbers them.
std::set<std::string> sockets_at(int port) {
  std::set<std::string> found;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == kListening && local.ends_with(wanted)) found.insert("socket:[" + inode + "]");
    }
  }
  return found;
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code problem;
  for (const auto& file : fs::directory_iterator(process / "fd", problem)) {
    if (sockets.contains(fs::read_symlink(file, problem).string())) return true;
  }
  return false;
}

// Nothing when the process is another user's.
std::optional<std::string> owner_of(int port) {
  const std::set<std::string> sockets = sockets_at(port);
  if (sockets.empty()) return std::nullopt;
  std::error_code problem;
  for (const auto& process : fs::directory_iterator("/proc", problem)) {
    const std::string id = process.path().filename();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one_of(process, sockets)) continue;
    std::string name;
    std::ifstream file(process.path() / "comm");
    std::getline(file, name);
    return fmt::format("process {} ({})", id, name);
  }
  return std::nullopt;
}

// Tries to listen there and returns what the system says.
std::string system_reason(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failure != 0) return fmt::format("the host '{}' is unknown: {}", host, gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(list, &freeaddrinfo);
  const FileDescriptor socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(socket.get(), list->ai_addr, list->ai_addrlen) == 0) {
    return "another listener was there a moment ago";
  }
  return errno_text(errno);
}

// Why no process can listen there: "port 2222 is in use by process 4711 (trainer)", or what the
// system says.
std::string why_not_listening(const std::string& host, int port) {
  if (const auto owner = owner_of(port)) {
    return fmt::format("port {} is in use by {}", port, *owner);
  }
  return system_reason(host, port);
}

constexpr int kCallsExpected = 16;  // at the same moment

std::optional<std::string> metadata(const grpc::ServerContext& call, const char* key) {
  const auto found = call.client_metadata().find(key);
  if (found == call.client_metadata().end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

constexpr std::chrono::seconds kTimeToDecide{15};

// An accepted call until its caller decides: either the call becomes a connection, or the caller
// takes up the answer's offer of shared memory, and the call ends.
class IncomingCall : public std::enable_shared_from_this<IncomingCall> {
 public:
  IncomingCall(std::shared_ptr<CompletionQueueThread> queue_thread,
               std::shared_ptr<ServerCall> call, Peer self, Peer peer, Endpoint::Accept accept)
      : queue_thread_(std::move(queue_thread)),
        call_(std::move(call)),
        self_(std::move(self)),
        peer_(std::move(peer)),
        accept_(std::move(accept)) {
    queue_thread_->attach();
  }
  ~IncomingCall() { queue_thread_->detach(); }

  void answer(const std::string& handshake) {
    call_->context().AddInitialMetadata(kHandshakeKey, handshake);
    // The first chunk may arrive before the answer is known to be sent; the call needs both.
    call_->stream().SendInitialMetadata(
        CompletionQueueThread::tag([self = shared_from_this()](bool ok) {
          self->answered_ = true;
          if (self->heard_) self->become_connection();
          if (!ok) self->call_->cancel();
        }));
    call_->read(&first_chunk_, CompletionQueueThread::tag([self = shared_from_this()](bool ok) {
      self->on_first_chunk(ok);
    }));
    time_limit_.Set(queue_thread_->queue(),
                    to_grpc_time(std::chrono::steady_clock::now() + kTimeToDecide),
                    CompletionQueueThread::tag([self = shared_from_this()](bool elapsed) {
                      if (elapsed) self->call_->cancel();
                    }));
  }

 private:
  void on_first_chunk(bool ok) {
    time_limit_.Cancel();
    if (!ok || ReceivedBytes(first_chunk_).to_string() != kReady) {
      return call_->finish(CompletionQueueThread::tag([self = shared_from_this()](bool) {}));
    }
    heard_ = true;
    if (answered_) become_connection();
  }

  void become_connection() {
    const auto stream = std::make_shared<GrpcStream>(queue_thread_, call_, self_, peer_);
    const Status problem =
        capture_status([&] { accept_(std::make_shared<GrpcConnection>(stream)); });
    if (!problem.ok()) log_error("[Server] accepting a connection threw {}", problem.to_string());
    stream->open();
  }

  const std::shared_ptr<CompletionQueueThread> queue_thread_;
  const std::shared_ptr<ServerCall> call_;
  const Peer self_;
  const Peer peer_;
  const Endpoint::Accept accept_;
  grpc::ByteBuffer first_chunk_;
  grpc::Alarm time_limit_;
  // Both belong to the thread that polls the queue.
  bool answered_ = false;
  bool heard_ = false;
};

}  // namespace

std::string host_to_listen_at(const EndpointOptions& options) {
  const std::string asked = parse_address(options.self.address).host;
  // The loopback interface has many addresses; peers dial the address in the cluster spec.
  const bool takes_asked = options.spans_hosts || asked.starts_with("127.");
  const std::string host = takes_asked ? asked : "127.0.0.1";
  if (is_loopback(host) || options.credentials.has_certificates()) return host;
  if (!options.credentials.insecure) {
    raise(Code::FailedPrecondition,
          "[Server] {} would listen at {} without certificates, where strangers can reach it; give "
          "it credentials, or set Credentials::insecure (COHORT_CREDENTIALS=insecure) on a network "
          "that strangers cannot reach",
          options.self.name, host);
  }
  log_warning(
      "[Server] {} listens at {} without certificates (insecure): every process that reaches it "
      "can read and change what it does",
      options.self.name, host);
  return host;
}

Listener::Listener(Options options) : options_(std::move(options)) {
  quiet_grpc();
  grpc::ServerBuilder builder;
  configure(builder);
  builder.AddListeningPort(address_text(options_.host, options_.port),
                           server_credentials(options_.credentials), &port_);
  builder.RegisterAsyncGenericService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (!server_ || port_ == 0) {
    if (server_) server_->Shutdown();
    discard(*queue);
    raise(Code::Unknown, "[Server] cannot listen at {}: {}",
          address_text(options_.host, options_.port),
          why_not_listening(options_.host, options_.port));
  }
  queue_thread_ = std::make_shared<CompletionQueueThread>(std::move(queue));
}

Listener::~Listener() {
  stop();
  queue_thread_->stop();  // what waits there refers to this
}

void Listener::start(Handshake self, Handlers handlers) {
  self_ = std::move(self);
  handlers_ = std::move(handlers);
  for (int i = 0; i < kCallsExpected; ++i) request_call();
}

void Listener::stop() {
  if (stopping_.exchange(true)) return;
  queue_thread_->keep_polled();
  // Calls that are not finished by then are cancelled.
  constexpr std::chrono::seconds kTimeToFinish{1};
  server_->Shutdown(to_grpc_time(std::chrono::steady_clock::now() + kTimeToFinish));
}

void Listener::request_call() {
  if (stopping_) return;
  queue_thread_->attach();
  auto call = std::make_shared<ServerCall>();
  ServerCall& waiting = *call;
  service_.RequestCall(&waiting.context(), &waiting.stream(), queue_thread_->queue(),
                       static_cast<grpc::ServerCompletionQueue*>(queue_thread_->queue()),
                       CompletionQueueThread::tag([this, call = std::move(call)](bool ok) {
                         if (ok) {
                           request_call();
                           on_call(call);
                         }
                         queue_thread_->detach();
                       }));
}

void Listener::on_call(const std::shared_ptr<ServerCall>& call) {
  const Status problem = capture_status([&] {
    const std::string& method = call->context().method();
    if (method == kConnectMethod) {
      answer_handshake(call);
    } else if (method == kStatusMethod) {
      answer_status(call);
    } else {
      raise(Code::Unimplemented,
            "[Server] the caller asked for a method that this server does not have");
    }
  });
  if (!problem.ok()) refuse(call, problem);
}

void Listener::refuse(const std::shared_ptr<ServerCall>& call, const Status& why) {
  queue_thread_->attach();
  call->refuse(to_grpc(why), CompletionQueueThread::tag([call, queue_thread = queue_thread_](bool) {
                 queue_thread->detach();
               }));
}

void Listener::check_token(const grpc::ServerContext& call) const {
  if (options_.credentials.token.empty()) return;
  const auto shown = metadata(call, kTokenKey);
  if (shown && equal_secrets(*shown, options_.credentials.token)) return;
  raise(Code::Unauthenticated,
        "[Connect] {} demands the token of its run, and the caller shows {}; start both with the "
        "same credentials",
        self_.peer.name, shown ? "another" : "none");
}

Handshake Listener::admit(const grpc::ServerContext& call) const {
  check_token(call);
  const auto bytes = metadata(call, kHandshakeKey);
  if (!bytes) {
    raise(Code::InvalidArgument, "[Connect] the caller sent {} no handshake", self_.peer.name);
  }
  Handshake from = decode_handshake(*bytes, self_.peer.name);
  if (options_.credentials.has_certificates()) {
    check_peer_certificate(*call.auth_context(), from.peer.name, "the caller");
  }
  check_handshake(from, self_);
  return from;
}

void Listener::answer_handshake(const std::shared_ptr<ServerCall>& call) {
  const Handshake from = admit(call->context());
  Handshake answer = self_;
  if (handlers_.fill_answer) handlers_.fill_answer(from, answer);
  std::make_shared<IncomingCall>(queue_thread_, call, answer.peer, from.peer, handlers_.accept)
      ->answer(encode(answer));
}

void Listener::answer_status(const std::shared_ptr<ServerCall>& call) {
  check_token(call->context());
  const std::chrono::duration<double> up = std::chrono::steady_clock::now() - started_;
  send_status(queue_thread_, call,
              {.self = self_.peer,
               .protocol = self_.protocol,
               .seconds_up = up.count(),
               .details = options_.details});
}

}  // namespace cohort::internal
