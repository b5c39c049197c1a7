#pragma once

#include "rpc/completion_queue_thread.h"
#include "rpc/stream_call.h"
#include "transport/endpoint.h"

namespace cohort::internal {

// An accepted call until its caller decides: either the call becomes a connection, or the caller
// takes up the answer's offer of shared memory, and the call ends.
class IncomingCall : public std::enable_shared_from_this<IncomingCall> {
 public:
  IncomingCall(std::shared_ptr<Pump> pump, std::shared_ptr<ServerCall> call, Peer self, Peer peer);
  ~IncomingCall();

  void answer(const std::string& handshake, Endpoint::Accept accept);

 private:
  void on_first_chunk(bool ok);
  void become_connection();
  void finish();

  const std::shared_ptr<Pump> pump_;
  const std::shared_ptr<ServerCall> call_;
  const Peer self_;
  const Peer peer_;
  Endpoint::Accept accept_;
  grpc::ByteBuffer first_chunk_;
  grpc::Alarm time_limit_;
  // Both belong to the thread that polls the pump.
  bool answered_ = false;
  bool heard_ = false;
};

}  // namespace cohort::internal
