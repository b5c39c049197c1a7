#include "rpc/listener.h"

#include <grpcpp/server_builder.h>

#include "base/raise.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"
#include "rpc/incoming_call.h"
#include "rpc/port_owner.h"
#include "rpc/status_call.h"
#include "rpc/wire_names.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

constexpr int kCallsExpected = 16;  // at the same moment

void discard(std::unique_ptr<grpc::ServerCompletionQueue> queue) {
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
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
    discard(std::move(queue));
    raise(Code::Unknown, "[Server] can not listen at {}: {}",
          address_text(options_.host, options_.port),
          why_not_listening(options_.host, options_.port));
  }
  pump_ = std::make_shared<Pump>(std::move(queue));
}

Listener::~Listener() {
  stop();
  pump_->stop();  // what waits there refers to this
}

void Listener::start(std::shared_ptr<const Admission> admission, Handlers handlers) {
  admission_ = std::move(admission);
  handlers_ = std::make_shared<const Handlers>(std::move(handlers));
  for (int i = 0; i < kCallsExpected; ++i) request_call();
}

void Listener::stop() {
  if (stopping_.exchange(true)) return;
  pump_->keep_polled();
  // Calls that are not finished by then are cancelled.
  constexpr std::chrono::seconds kTimeToFinish{1};
  server_->Shutdown(to_grpc_time(std::chrono::steady_clock::now() + kTimeToFinish));
}

void Listener::request_call() {
  if (stopping_) return;
  pump_->attach();
  auto call = std::make_shared<ServerCall>();
  ServerCall& waiting = *call;
  service_.RequestCall(&waiting.context(), &waiting.stream(), pump_->queue(),
                       static_cast<grpc::ServerCompletionQueue*>(pump_->queue()),
                       Pump::tag([this, call = std::move(call)](bool ok) {
                         if (ok) {
                           request_call();
                           on_call(call);
                         }
                         pump_->detach();
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
  pump_->attach();
  call->refuse(to_grpc(why), Pump::tag([call, pump = pump_](bool) { pump->detach(); }));
}

void Listener::answer_handshake(const std::shared_ptr<ServerCall>& call) {
  const Handshake from = admission_->admit(call->context());
  Handshake answer = admission_->self();
  if (handlers_->fill_answer) handlers_->fill_answer(from, answer);
  const auto incoming = std::make_shared<IncomingCall>(pump_, call, answer.peer, from.peer);
  incoming->answer(encode(answer), handlers_->accept);
}

void Listener::answer_status(const std::shared_ptr<ServerCall>& call) {
  admission_->check_token(call->context());
  const std::chrono::duration<double> up = std::chrono::steady_clock::now() - started_;
  send_status(pump_, call,
              {.self = admission_->self().peer,
               .protocol = admission_->self().protocol,
               .seconds_up = up.count(),
               .details = options_.details});
}

}  // namespace cohort::internal
