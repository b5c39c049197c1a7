#include "transport/in_process.h"

#include "transport/delivery.h"
#include "transport/ending.h"
#include "transport/traffic_counter.h"

namespace cohort::internal {
namespace {

// One end: reads one queue, writes the other.
class InProcessConnection : public Connection {
 public:
  InProcessConnection(Peer peer, std::shared_ptr<MessageQueue> in,
                      std::shared_ptr<MessageQueue> out)
      : peer_(std::move(peer)), in_(in), out_(std::move(out)), delivery_("in-process", in) {}
  ~InProcessConnection() override { InProcessConnection::close(dropped()); }

  void start(Events events) override {
    events.received = [this, inner = std::move(events.received)](Message message) {
      traffic_.received(size_of(message));
      inner(std::move(message));
    };
    delivery_.start(std::move(events));
  }

  void send(Message message) override {
    const size_t bytes = size_of(message);
    out_->push(std::move(message), delivery_.is_delivering_here() ? MessageQueue::WhenFull::Grow
                                                                  : MessageQueue::WhenFull::Wait);
    traffic_.sent(bytes);
  }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }

  void close(const Status& why) override {
    const Status here = closed_here(why, peer_);
    const Status there = closed_by_peer(why, peer_);
    out_->end(there, here);
    in_->discard(here, there);
  }

  const Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "in-process"; }
  Traffic traffic() const override { return traffic_.read(); }

 private:
  const Peer peer_;
  const std::shared_ptr<MessageQueue> in_;
  const std::shared_ptr<MessageQueue> out_;
  TrafficCounter traffic_;
  Delivery delivery_;  // last: its end waits for the events, which use the rest
};

}  // namespace

std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_in_process(
    Peer first, Peer second, QueueLimits limits) {
  auto to_first = std::make_shared<MessageQueue>(limits);
  auto to_second = std::make_shared<MessageQueue>(limits);
  return {std::make_shared<InProcessConnection>(std::move(second), to_first, to_second),
          std::make_shared<InProcessConnection>(std::move(first), to_second, to_first)};
}

}  // namespace cohort::internal
