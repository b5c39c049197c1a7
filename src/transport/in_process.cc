#include "transport/in_process.h"

#include "base/mutex.h"
#include "transport/delivery.h"
#include "transport/ending.h"
#include "transport/traffic_counter.h"

namespace cohort::internal {
namespace {

// One end: reads one queue, writes the other.
class InProcessConnection : public Connection {
 public:
  InProcessConnection(Peer self, Peer peer, std::shared_ptr<MessageQueue> in,
                      std::shared_ptr<MessageQueue> out)
      : self_(std::move(self)),
        peer_(std::move(peer)),
        in_(in),
        out_(std::move(out)),
        delivery_("in-process", in) {}
  ~InProcessConnection() override { InProcessConnection::close(dropped()); }

  void start(Events events) override { delivery_.start(traffic_.counting(std::move(events))); }

  void send(Message message) override {
    push(std::move(message), delivery_.is_delivering_here() ? MessageQueue::WhenFull::Grow
                                                            : MessageQueue::WhenFull::Wait);
  }
  void post(Message message) override { push(std::move(message), MessageQueue::WhenFull::Grow); }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }

  void close(const Status& why) override {
    const Status here = closed_here(why, peer_);
    const Status there = closed_by_peer(why, self_);
    out_->end(there, here);
    in_->discard(here, there);
  }

  const Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "in-process"; }
  Traffic traffic() const override { return traffic_.read(); }

 private:
  void push(Message message, MessageQueue::WhenFull when_full) {
    check_no_mutex_held("sends");
    const size_t bytes = size_of(message);
    out_->push(std::move(message), when_full);
    traffic_.sent(bytes);
  }

  const Peer self_;
  const Peer peer_;
  const std::shared_ptr<MessageQueue> in_;
  const std::shared_ptr<MessageQueue> out_;
  TrafficCounter traffic_;
  Delivery delivery_;  // last: its end waits for the events, which use the rest
};

}  // namespace

std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_in_process(
    const Peer& first, const Peer& second, QueueLimits limits) {
  auto to_first = std::make_shared<MessageQueue>(limits);
  auto to_second = std::make_shared<MessageQueue>(limits);
  return {std::make_shared<InProcessConnection>(first, second, to_first, to_second),
          std::make_shared<InProcessConnection>(second, first, to_second, to_first)};
}

}  // namespace cohort::internal
