#include "rpc/incoming_call.h"

#include "base/log.h"
#include "rpc/byte_buffers.h"
#include "rpc/grpc_connection.h"
#include "rpc/grpc_settings.h"
#include "rpc/wire_names.h"

namespace cohort::internal {
namespace {

constexpr std::chrono::seconds kTimeToDecide{15};

}  // namespace

IncomingCall::IncomingCall(std::shared_ptr<Pump> pump, std::shared_ptr<ServerCall> call, Peer self,
                           Peer peer)
    : pump_(std::move(pump)),
      call_(std::move(call)),
      self_(std::move(self)),
      peer_(std::move(peer)) {
  pump_->attach();
}

IncomingCall::~IncomingCall() { pump_->detach(); }

void IncomingCall::answer(const std::string& handshake, Endpoint::Accept accept) {
  accept_ = std::move(accept);
  call_->context().AddInitialMetadata(kHandshakeKey, handshake);
  // The first chunk may arrive before the answer is known to be sent; the call needs both.
  call_->stream().SendInitialMetadata(Pump::tag([self = shared_from_this()](bool ok) {
    self->answered_ = true;
    if (self->heard_) self->become_connection();
    if (!ok) self->call_->cancel();
  }));
  call_->read(&first_chunk_,
              Pump::tag([self = shared_from_this()](bool ok) { self->on_first_chunk(ok); }));
  time_limit_.Set(pump_->queue(), to_grpc_time(std::chrono::steady_clock::now() + kTimeToDecide),
                  Pump::tag([self = shared_from_this()](bool elapsed) {
                    if (elapsed) self->call_->cancel();
                  }));
}

void IncomingCall::on_first_chunk(bool ok) {
  time_limit_.Cancel();
  if (!ok || ReceivedBytes(first_chunk_).to_string() != kReady) return finish();
  heard_ = true;
  if (answered_) become_connection();
}

void IncomingCall::become_connection() {
  const auto stream = std::make_shared<GrpcStream>(pump_, call_, self_, peer_);
  const Status problem = capture_status([&] { accept_(std::make_shared<GrpcConnection>(stream)); });
  if (!problem.ok()) log_error("[Server] accepting a connection threw {}", problem.to_string());
  stream->open();
}

void IncomingCall::finish() {
  call_->finish(Pump::tag([self = shared_from_this()](bool) {}));
}

}  // namespace cohort::internal
