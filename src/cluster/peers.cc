#include "cluster/peers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/raise.h"
#include "cluster/task_names.h"

namespace cohort::internal {
namespace {

ServerStatus::Peer status_of(Link& link) {
  const Traffic traffic = link.connection()->traffic();
  return {.name = link.peer().name,
          .transport = std::string(link.connection()->kind()),
          .messages_sent = traffic.messages_sent,
          .messages_received = traffic.messages_received,
          .bytes_sent = traffic.bytes_sent,
          .bytes_received = traffic.bytes_received};
}

}  // namespace

Peers::Peers(ClusterSpec cluster, std::string self, const HeartbeatOptions& heartbeat,
             Link::Events events, ErrandOf errand_of)
    : cluster_(std::move(cluster)),
      self_(std::move(self)),
      events_(std::move(events)),
      errand_of_(std::move(errand_of)),
      heartbeat_(heartbeat) {}

void Peers::start(std::shared_ptr<Party> party) {
  party_ = std::move(party);
  auto [master, worker] = connect_directly(party_->self(), party_->self());
  own_worker_ = begin(std::move(worker));
  own_master_ = begin(std::move(master));
}

Link::Pointer Peers::begin(std::shared_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    ++alive_;
  }
  return Link::start(
      std::move(connection), self_,
      {.received = events_.received, .ended = [this](const Link::Pointer& link, const Status& why) {
         events_.ended(link, why);
         note_end();
       }});
}

void Peers::note_end() {
  const std::lock_guard lock(mutex_);
  --alive_;
  all_ended_.notify_all();
}

Peers::Entry& Peers::entry(const std::string& task) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Entry>& entry = entries_[task];
  if (!entry) entry = std::make_unique<Entry>();
  return *entry;
}

Link::Pointer Peers::live_link(Entry& entry) const {
  const std::lock_guard lock(mutex_);
  if (stopped_) raise(Code::Cancelled, "[Server] {} was stopped", self_);
  return entry.link && !entry.link->ended() ? entry.link : nullptr;
}

void Peers::accept(std::shared_ptr<Connection> connection) {
  const std::string name = connection->peer().name;
  const auto direct = std::dynamic_pointer_cast<DirectConnection>(connection);
  const Link::Pointer link = begin(std::move(connection));
  if (direct) {
    direct->set_errands([this, weak = std::weak_ptr<Link>(link)]() -> std::optional<Errand> {
      const Link::Pointer alive = weak.lock();
      return alive ? errand_of_(alive) : std::nullopt;
    });
  }
  const bool is_task =
      capture_status([&] { (void)address_of(cluster_, name); }).ok() && name != self_;
  if (is_task) entry(name);
  Link::Pointer outdated;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(accepted_, [](const auto& old) { return old.expired(); });
    accepted_.push_back(link);
    if (stopped_) link->close({.code = Code::Cancelled, .message = "[Server] it was stopped"});
    if (!is_task) return;
    Link::Pointer& known = entries_.at(name)->link;
    const bool restarted = known && known->peer().incarnation != link->peer().incarnation;
    if (restarted) outdated = known;
    if (!known || known->ended() || restarted) known = link;
  }
  if (outdated) outdated->close({.code = Code::Aborted, .message = name + " was restarted"});
  watch(link);
}

// One that dies ends its connections; one that is silent has to be found out.
void Peers::watch(const Link::Pointer& link) {
  if (link->connection()->kind() == "in-process") return;
  heartbeat_.watch(link->peer(), [weak = std::weak_ptr<Link>(link)](const Status& why) {
    if (const Link::Pointer alive = weak.lock()) alive->close(why);
  });
}

Link::Pointer Peers::get(const std::string& task, Deadline deadline) {
  if (task == self_) return own_master_;
  Entry& known = entry(task);
  if (Link::Pointer link = live_link(known)) return link;
  const std::lock_guard one_at_a_time(known.connecting);
  if (Link::Pointer link = live_link(known)) return link;
  Link::Pointer made = connect(task, deadline);
  watch(made);
  const std::lock_guard lock(mutex_);
  if (stopped_) made->close({.code = Code::Cancelled, .message = "[Server] it was stopped"});
  // The other side may have been quicker; both links stay, and one of them is used.
  if (!known.link || known.link->ended()) known.link = made;
  return made;
}

Link::Pointer Peers::connect(const std::string& task, Deadline deadline) {
  const std::string address = address_of(cluster_, task);
  std::shared_ptr<Connection> connection;
  Status status = capture_status([&] { connection = party_->connect(address, deadline); });
  if (!status.ok()) {
    status.message = fmt::format("task {} at {}: {}", task, address, status.message);
    throw Error(std::move(status));
  }
  if (connection->peer().name != task) {
    raise(Code::FailedPrecondition, "task {} at {}: {} listens there; the tasks' clusters differ",
          task, address, connection->peer().name);
  }
  return begin(std::move(connection));
}

void Peers::stop() {
  std::vector<Link::Pointer> links;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const auto& [task, known] : entries_) {
      if (known->link) links.push_back(known->link);
    }
    for (const auto& link : accepted_) {
      if (Link::Pointer alive = link.lock()) links.push_back(std::move(alive));
    }
  }
  if (own_master_) links.push_back(own_master_);
  for (const Link::Pointer& link : links) {
    link->close({.code = Code::Cancelled, .message = "[Server] " + self_ + " was stopped"});
  }
  if (party_) party_->stop();
  std::unique_lock lock(mutex_);
  all_ended_.wait(lock, [&] { return alive_ == 0; });
}

std::vector<ServerStatus::Peer> Peers::status() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServerStatus::Peer> peers;
  std::vector<Link*> told;
  const auto tell = [&](const Link::Pointer& link) {
    if (!link || link->ended()) return;
    if (std::find(told.begin(), told.end(), link.get()) != told.end()) return;
    told.push_back(link.get());
    peers.push_back(status_of(*link));
  };
  for (const auto& [task, known] : entries_) tell(known->link);
  for (const auto& link : accepted_) tell(link.lock());
  return peers;
}

}  // namespace cohort::internal
