#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/activity.h"
#include "base/mutex.h"
#include "base/timers.h"
#include "cluster/protocol.h"
#include "cohort/cluster.h"
#include "transport/connection.h"

namespace cohort::internal {

// What a server, or a run of it, has waited for.
struct LongWait {
  WaitKind kind = WaitKind::Tensor;
  std::string what = {};
  std::vector<std::string> whom = {};
  std::chrono::steady_clock::time_point since = {};
};

// Whether a run with that limit waits on purpose, so that its waiting is not reported.
inline bool waits_on_purpose(std::chrono::milliseconds limit) {
  return limit > std::chrono::hours(24);
}

// How this process takes part in a cluster as a client.
std::unique_ptr<Endpoint> make_client_endpoint(const Credentials& credentials);

// A connection with requests on it. Thread-safe; lives until the connection ends.
class Link : public std::enable_shared_from_this<Link> {
 public:
  using Pointer = std::shared_ptr<Link>;
  using Answered = std::function<void(Answer)>;
  struct Events {
    // Gets all messages except answers and pings. What it throws ends the connection, because the
    // peer does not keep to the protocol.
    std::function<void(const Pointer&, const Message&)> received;
    std::function<void(const Pointer&, const Status&)> ended;
  };

  // `self`: the origin of this side's failures.
  static Pointer start(std::shared_ptr<Connection> connection, std::string self, Events events);

  // Throws what ended the connection.
  void send(Message message) { connection_->send(std::move(message)); }
  // For threads that read another connection and so must not wait for this one. Messages to a
  // connection that has ended are dropped; Events::ended reports the end.
  void post(Message message);

  // Sends an encoded request and waits for the answer, reading the connection itself. Throws the
  // status of the answer if it is not OK, what ended the connection, or DeadlineExceeded.
  Answer call(Message request, Deadline deadline);
  // The answer comes later, on a thread that reads. When the connection ends before, the answer's
  // status is the reason.
  void begin(Message request, Answered answered);
  void answer(const Answer& answer) { post(encode(answer, self_)); }

  const std::shared_ptr<Connection>& connection() const { return connection_; }
  const Peer& peer() const { return connection_->peer(); }
  const std::string& self() const { return self_; }
  bool ended() const { return ended_.load(); }
  // Whether this side has closed the link, which then ends soon.
  bool closed() const { return closed_.load(); }
  void close(const Status& why) {
    closed_ = true;
    connection_->close(why);
  }

 private:
  Link(std::shared_ptr<Connection> connection, std::string self, Events events)
      : connection_(std::move(connection)), self_(std::move(self)), events_(std::move(events)) {}
  void receive(const Message& message);
  void take_answer(const Message& message);
  void end(const Status& why);

  const std::shared_ptr<Connection> connection_;
  const std::string self_;
  const Events events_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> ended_{false};

  Mutex mutex_;
  uint64_t next_request_ = 1;  // guarded by mutex_, like all members below
  std::unordered_map<uint64_t, Answered> unanswered_;
  Status end_;
};

// Gives up peers that are silent, because they are frozen or the network has cut the connection. A
// peer that dies ends its connection. Heartbeats have connections of their own and ask only peers
// that listen somewhere, so the watch pings the peer on the watched connection, which a thread of
// the peer always reads. Thread-safe.
class LinkWatch {
 public:
  using GiveUp = std::function<void(const Link::Pointer& silent)>;
  // `limit`: how long a peer may be silent. `give_up` is called on a thread of Timers, and closes
  // the link.
  LinkWatch(std::chrono::milliseconds limit, GiveUp give_up)
      : limit_(limit), give_up_(std::move(give_up)) {}

  // Until the link ends or is given up.
  void watch(const Link::Pointer& link) { look_later(link, 0, 0); }

 private:
  // `progress`: of the connection at the last look; `silent`: looks in a row without progress.
  void look_later(const std::weak_ptr<Link>& link, uint64_t progress, int silent);
  void look(const Link::Pointer& link, uint64_t progress, int silent);

  const std::chrono::milliseconds limit_;
  const GiveUp give_up_;
  Timers timers_;
};

}  // namespace cohort::internal
