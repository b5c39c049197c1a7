#include "transport/shared_connection.h"

#include "base/mutex.h"
#include "transport/delivery.h"
#include "transport/ending.h"
#include "transport/message_queue.h"
#include "transport/shared_inbox.h"
#include "transport/traffic_counter.h"

namespace cohort::internal {
namespace {

class SharedConnection : public Connection {
 public:
  explicit SharedConnection(std::shared_ptr<SharedSide> side)
      : side_(side), delivery_("shared-memory", std::make_shared<SharedInbox>(std::move(side))) {}
  ~SharedConnection() override { SharedConnection::close(dropped()); }

  void start(Events events) override { delivery_.start(traffic_.counting(std::move(events))); }

  void send(Message message) override {
    write(std::move(message), delivery_.is_delivering_here() ? SharedOutbox::WhenFull::Queue
                                                             : SharedOutbox::WhenFull::Wait);
  }
  void post(Message message) override { write(std::move(message), SharedOutbox::WhenFull::Queue); }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }

  void close(const Status& why) override {
    side_->end.close(why);
    side_->outbox.end();
  }

  const Peer& peer() const override { return side_->end.peer(); }
  std::string_view kind() const override { return "shared-memory"; }
  Traffic traffic() const override { return traffic_.read(); }

 private:
  void write(Message message, SharedOutbox::WhenFull when_full) {
    check_no_mutex_held("sends");
    const size_t bytes = size_of(message);
    side_->outbox.send(std::move(message), when_full);
    traffic_.sent(bytes);
  }

  const std::shared_ptr<SharedSide> side_;
  TrafficCounter traffic_;
  Delivery delivery_;  // last: its end waits for the events, which use the rest
};

}  // namespace

std::shared_ptr<Connection> make_shared_connection(std::shared_ptr<SharedMapping> mapping,
                                                   std::shared_ptr<PeerSignals> bells, int outgoing,
                                                   Peer self, Peer peer) {
  return std::make_shared<SharedConnection>(std::make_shared<SharedSide>(
      std::move(mapping), std::move(bells), outgoing, std::move(self), std::move(peer)));
}

}  // namespace cohort::internal
