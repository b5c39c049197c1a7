#include "cluster/request_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/random_number.h"
#include "rpc/grpc_endpoint.h"

namespace cohort::internal {

std::unique_ptr<Endpoint> make_client_endpoint(const Credentials& credentials) {
  return make_endpoint({.self = {.name = fmt::format("client {} on {}", getpid(), host_name()),
                                 .incarnation = random_number()},
                        .credentials = credentials});
}

Link::Pointer Link::start(std::shared_ptr<Connection> connection, std::string self, Events events) {
  const Pointer link(new Link(std::move(connection), std::move(self), std::move(events)));
  link->connection_->start({.received = [link](Message message) { link->receive(message); },
                            .ended = [link](const Status& why) { link->end(why); }});
  return link;
}

void Link::post(Message message) {
  (void)capture_status([&] { connection_->post(std::move(message)); });
}

void Link::begin(Message request, Answered answered) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) throw Error(end_);
    number = next_request_++;
    unanswered_[number] = std::move(answered);
  }
  const Status status =
      capture_status([&] { connection_->send(numbered(std::move(request), number)); });
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  // If the call is gone, end() has answered it already.
  if (unanswered_.erase(number) != 0) throw Error(status);
}

Answer Link::call(Message request, Deadline deadline) {
  struct Pending {
    std::atomic<bool> done{false};
    Answer answer;
  };
  const auto pending = std::make_shared<Pending>();
  begin(std::move(request), [pending](Answer answer) {
    pending->answer = std::move(answer);
    pending->done = true;
  });
  const Status status = capture_status([&] {
    if (connection_->deliver_until([&] { return pending->done.load(); }, deadline)) return;
    raise(Code::DeadlineExceeded, "[Cluster] {} did not answer in time", peer().name);
  });
  if (!pending->done) throw Error(status);
  throw_if_error(pending->answer.status);
  return std::move(pending->answer);
}

void Link::receive(const Message& message) {
  const Status status = capture_status([&] {
    switch (kind_of(message)) {
      case MessageKind::Answer:
        return take_answer(message);
      case MessageKind::Ping:
        return post(encode(Pong{decode<Ping>(message).number}));
      case MessageKind::Pong:
        return;  // its arrival is all that counts
      default:
        return events_.received(shared_from_this(), message);
    }
  });
  if (status.ok()) return;
  static RareLog rare_log;  // one for all links, because each stranger opens a new one
  rare_log.warning("[Cluster] the connection with {} ends: {}", peer().name, status.to_string());
  connection_->close(status);
}

void Link::take_answer(const Message& message) {
  Answer answer = decode<Answer>(message);
  decltype(unanswered_)::node_type waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = unanswered_.extract(answer.request);
  }
  if (waiting) waiting.mapped()(std::move(answer));  // else the caller waits no longer
}

void Link::end(const Status& why) {
  std::unordered_map<uint64_t, Answered> unanswered;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    end_ = why;
    unanswered.swap(unanswered_);
  }
  for (const auto& [request, answered] : unanswered) answered({.request = request, .status = why});
  events_.ended(shared_from_this(), why);
}

namespace {

// The watch counts looks, not time, so that a pause of this process is not blamed on a peer.
constexpr int kLooksPerLimit = 8;

}  // namespace

void LinkWatch::look_later(const std::weak_ptr<Link>& link, uint64_t progress, int silent) {
  timers_.at(std::chrono::steady_clock::now() + limit_ / kLooksPerLimit, [=, this] {
    const Link::Pointer alive = link.lock();
    if (alive && !alive->ended()) look(alive, progress, silent);
  });
}

void LinkWatch::look(const Link::Pointer& link, uint64_t progress, int silent) {
  const uint64_t now = link->connection()->progress();
  silent = now == progress ? silent + 1 : 0;
  if (silent > kLooksPerLimit) return give_up_(link);
  if (silent > 0) link->post(encode(Ping{now}));
  look_later(link, now, silent);
}

}  // namespace cohort::internal
