#include "rpc/listener.h"

#include <grpcpp/server_builder.h>

#include <optional>

#include "base/log.h"
#include "base/raise.h"
#include "rpc/certificates.h"
#include "rpc/grpc_connection.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"
#include "rpc/port_owner.h"
#include "rpc/status_call.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

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

  void answer(const std::string& handshake);

 private:
  void on_first_chunk(bool ok);
  void become_connection();

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

void IncomingCall::answer(const std::string& handshake) {
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

void IncomingCall::on_first_chunk(bool ok) {
  time_limit_.Cancel();
  if (!ok || ReceivedBytes(first_chunk_).to_string() != kReady) {
    return call_->finish(CompletionQueueThread::tag([self = shared_from_this()](bool) {}));
  }
  heard_ = true;
  if (answered_) become_connection();
}

void IncomingCall::become_connection() {
  const auto stream = std::make_shared<GrpcStream>(queue_thread_, call_, self_, peer_);
  const Status problem = capture_status([&] { accept_(std::make_shared<GrpcConnection>(stream)); });
  if (!problem.ok()) log_error("[Server] accepting a connection threw {}", problem.to_string());
  stream->open();
}

}  // namespace

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
    raise(Code::Unknown, "[Server] can not listen at {}: {}",
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
      raise(Code::Unimplemented, "[Server] there is no such method");
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
