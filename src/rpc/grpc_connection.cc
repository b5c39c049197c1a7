#include "rpc/grpc_connection.h"

#include "transport/ending.h"

namespace cohort::internal {

GrpcConnection::GrpcConnection(std::shared_ptr<GrpcStream> stream)
    : stream_(std::move(stream)), delivery_(stream_) {
  stream_->set_listener(delivery_.deliver_pending());
}

GrpcConnection::~GrpcConnection() {
  stream_->set_listener({});
  stream_->close(dropped());
}

void GrpcConnection::start(Events events) {
  delivery_.start(std::move(events));
  stream_->announce();
}

void GrpcConnection::send(Message message) {
  // Nobody else reads while this thread waits: it must not.
  const bool must_not_wait = delivery_.is_delivering_here() || stream_->pump().is_polling_here();
  stream_->send(std::move(message),
                must_not_wait ? GrpcStream::WhenFull::Grow : GrpcStream::WhenFull::Wait);
}

bool GrpcConnection::deliver_until(const std::function<bool()>& done, Deadline deadline) {
  return delivery_.deliver_until(done, deadline);
}

}  // namespace cohort::internal
