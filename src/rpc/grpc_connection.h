#pragma once

#include "rpc/grpc_stream.h"
#include "transport/delivery.h"

namespace cohort::internal {

// A connection by gRPC. Its events run on the thread that waits at the pump, or on one that waits
// for an answer.
class GrpcConnection : public Connection {
 public:
  explicit GrpcConnection(std::shared_ptr<GrpcStream> stream);
  ~GrpcConnection() override;

  void start(Events events) override;
  void send(Message message) override;
  void post(Message message) override {
    stream_->send(std::move(message), GrpcStream::WhenFull::Grow);
  }
  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override;
  void wake() override { delivery_.wake(); }
  void close(const Status& why) override { stream_->close(why); }
  const Peer& peer() const override { return stream_->peer(); }
  std::string_view kind() const override { return "grpc"; }
  Traffic traffic() const override { return stream_->traffic(); }

 private:
  const std::shared_ptr<GrpcStream> stream_;
  Delivery delivery_;
};

}  // namespace cohort::internal
