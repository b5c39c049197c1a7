#pragma once

#include "rpc/pump.h"
#include "rpc/stream_call.h"
#include "transport/party.h"

namespace cohort::internal {

// A call that was let in, until its caller says how it goes on: by this call, which becomes a
// connection, or by another way that the answer has offered, and then this call ends.
class IncomingCall : public std::enable_shared_from_this<IncomingCall> {
 public:
  IncomingCall(std::shared_ptr<Pump> pump, std::shared_ptr<ServerCall> call, Peer self, Peer peer);
  ~IncomingCall();

  void answer(const std::string& greeting, Party::Accept accept);

 private:
  void on_first_chunk(bool ok);
  void become_connection();
  void finish();

  const std::shared_ptr<Pump> pump_;
  const std::shared_ptr<ServerCall> call_;
  const Peer self_;
  const Peer peer_;
  Party::Accept accept_;
  grpc::ByteBuffer first_chunk_;
  grpc::Alarm time_limit_;
  // Both belong to the thread that waits at the pump.
  bool greeted_ = false;
  bool heard_ = false;
};

}  // namespace cohort::internal
