#include "cluster/peers.h"

#include <fmt/format.h>

#include <charconv>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/raise.h"
#include "base/text.h"
#include "cluster/task_directory.h"

namespace cohort::internal {
namespace {

void give_up_client(const Link::Pointer& client, std::chrono::milliseconds limit) {
  const Status why{
      .code = Code::Unavailable,
      .message = fmt::format("[Server] {} was silent for {:.1f} s and was given up with its "
                             "sessions: it was frozen, or could not be reached. Open a new "
                             "session; ServerOptions::silence_limit says how long a client may be "
                             "silent",
                             client->peer().name, std::chrono::duration<double>(limit).count())};
  static RareLog rare_log;  // one for all clients, because a lost machine may have many
  rare_log.warning("{}", why.message);
  client->close(why);
}

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
             Link::Events events, PendingWaitOf pending_wait_of)
    : cluster_(std::move(cluster)),
      self_(std::move(self)),
      events_(std::move(events)),
      pending_wait_of_(std::move(pending_wait_of)),
      heartbeat_(heartbeat),
      clients_(heartbeat.limit, [limit = heartbeat.limit](const Link::Pointer& client) {
        give_up_client(client, limit);
      }) {}

void Peers::start(std::shared_ptr<Endpoint> endpoint, MakeEndpoint make_outbound) {
  make_outbound_ = std::move(make_outbound);
  endpoint_ = std::move(endpoint);
  auto [master, worker] = connect_directly(endpoint_->self(), endpoint_->self());
  local_worker_ = begin(std::move(worker));
  local_master_ = begin(std::move(master));
}

Link::Pointer Peers::begin(std::shared_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    ++alive_;
  }
  Link::Pointer link = Link::start(std::move(connection), self_,
                                   {.received = events_.received,
                                    .ended = [this](const Link::Pointer& ended, const Status& why) {
                                      events_.ended(ended, why);
                                      const std::lock_guard lock(mutex_);
                                      --alive_;
                                      all_ended_.notify_all();
                                    }});
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [](const auto& old) { return old.expired(); });
  links_.push_back(link);
  return link;
}

Link::Pointer Peers::live_link(Entry& entry) const {
  const std::lock_guard lock(mutex_);
  if (stopped_) raise(Code::Cancelled, "[Server] {} was stopped", self_);
  return entry.link && !entry.link->ended() ? entry.link : nullptr;
}

void Peers::accept(std::shared_ptr<Connection> connection) {
  const std::string name = connection->peer().name;
  // A task that calls from another cluster may have the name of a task of this cluster, but has no
  // address. A task that joins later is not in this cluster; the connections that it makes reach
  // it.
  const bool is_task = !connection->peer().address.empty() && name != self_;
  const auto direct = std::dynamic_pointer_cast<DirectConnection>(connection);
  const Link::Pointer link = begin(std::move(connection));
  if (direct) {
    direct->set_pending_waits(
        [this, weak = std::weak_ptr<Link>(link)]() -> std::optional<PendingWait> {
          const Link::Pointer alive = weak.lock();
          return alive ? pending_wait_of_(alive) : std::nullopt;
        });
  }
  if (is_task) entry(name);
  if (close_if_stopped(link)) return;
  if (!is_task) {
    if (link->connection()->kind() != "in-process") clients_.watch(link);
    return;
  }
  Link::Pointer replaced;
  bool restarted = false;
  {
    const std::lock_guard lock(mutex_);
    Link::Pointer& known = entries_.at(name)->link;
    restarted = known && known->peer().incarnation != link->peer().incarnation;
    if (!known || known->ended() || restarted) replaced = std::exchange(known, link);
  }
  if (restarted) replaced->close({.code = Code::Aborted, .message = name + " was restarted"});
  watch(link);
}

// Without the lock, because the end may be reported before close() returns.
bool Peers::close_if_stopped(const Link::Pointer& link) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) return false;
  }
  link->close({.code = Code::Cancelled, .message = "[Server] the server was stopped"});
  return true;
}

// A task that dies ends its connections; the heartbeat finds out one that is silent.
void Peers::watch(const Link::Pointer& link) {
  if (link->connection()->kind() == "in-process") return;
  heartbeat_.watch(link->peer(), [this, peer = link->peer()](const Status& why) {
    for (const Link::Pointer& each : live_links()) {  // both sides may have opened a link
      if (each->peer().incarnation == peer.incarnation) each->close(why);
    }
  });
}

std::vector<Link::Pointer> Peers::live_links() const {
  const std::lock_guard lock(mutex_);
  std::vector<Link::Pointer> live;
  for (const auto& link : links_) {
    if (Link::Pointer one = link.lock(); one && !one->ended()) live.push_back(std::move(one));
  }
  return live;
}

Link::Pointer Peers::get(const std::string& task, Deadline deadline) {
  if (task == self_) return local_master_;
  return get_or_make(
      task, [&](Deadline until) { return connect(task, until); }, deadline);
}

Link::Pointer Peers::get_at(const std::string& address, Deadline deadline) {
  return get_or_make(
      address, [&](Deadline until) { return outbound().connect(address, until); }, deadline);
}

Endpoint& Peers::outbound() {
  if (Endpoint* const known = live_outbound()) return *known;
  // Without the lock, because an endpoint starts threads.
  std::unique_ptr<Endpoint> made = make_outbound_();
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_ && !outbound_) outbound_ = std::move(made);
  }
  made.reset();  // stops the endpoint, if another thread made one first or stop() came first
  return *live_outbound();
}

Endpoint* Peers::live_outbound() const {
  const std::lock_guard lock(mutex_);
  if (stopped_) raise(Code::Cancelled, "[Server] {} was stopped", self_);
  return outbound_.get();
}

Link::Pointer Peers::get_or_make(const std::string& key, const Connect& connect,
                                 Deadline deadline) {
  Entry& known = entry(key);
  if (Link::Pointer link = live_link(known)) return link;
  const std::lock_guard one_at_a_time(known.connecting);
  if (Link::Pointer link = live_link(known)) return link;
  Link::Pointer made = begin(connect(deadline));
  watch(made);
  close_if_stopped(made);
  Link::Pointer ended;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  // The other side may have been quicker; both links stay, and one of them is used.
  if (!known.link || known.link->ended()) ended = std::exchange(known.link, made);
  return made;
}

std::shared_ptr<Connection> Peers::connect(const std::string& task, Deadline deadline) {
  const std::string address = address_of(cluster_, task);
  std::shared_ptr<Connection> connection;
  Status status = capture_status([&] { connection = endpoint_->connect(address, deadline); });
  if (!status.ok()) {
    status.message = fmt::format("task {} at {}: {}", task, address, status.message);
    throw Error(std::move(status));
  }
  if (connection->peer().name != task) {
    raise(Code::FailedPrecondition, "task {} at {}: {} listens there; the tasks' clusters differ",
          task, address, connection->peer().name);
  }
  return connection;
}

void Peers::stop() {
  Endpoint* outbound = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    outbound = outbound_.get();
  }
  std::vector<Link::Pointer> links = live_links();
  for (const Link::Pointer& link : links) {
    link->close({.code = Code::Cancelled, .message = "[Server] " + self_ + " was stopped"});
  }
  if (outbound != nullptr) outbound->stop();
  if (endpoint_) endpoint_->stop();
  std::unique_lock lock(mutex_);
  all_ended_.wait(lock, [&] { return alive_ == 0; });
}

std::vector<ServerStatus::Peer> Peers::status() const {
  std::vector<ServerStatus::Peer> peers;
  for (const Link::Pointer& link : live_links()) {
    if (link != local_master_ && link != local_worker_) peers.push_back(status_of(*link));
  }
  return peers;
}

uint64_t PeerQuotas::limit_from_environment() {
  const std::string text = environment_variable("COHORT_PEER_BYTES").value_or("");
  if (text.empty()) return memory_limit() / 2;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc() && end == text.data() + text.size() && bytes > 0) return bytes;
  raise(Code::InvalidArgument,
        "[Server] COHORT_PEER_BYTES is '{}'; it must be a number of bytes, such as 4000000000",
        text);
}

std::shared_ptr<PeerQuotas::Account> PeerQuotas::account_of(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = accounts_.find(peer); found != accounts_.end()) return found->second;
  std::erase_if(accounts_, [](const auto& one) { return one.second.use_count() == 1; });
  return accounts_[peer] = std::make_shared<Account>(0);
}

PeerQuotas::Charge PeerQuotas::charge(const Peer& peer, const Message& message) {
  if (message.payloads.empty() || peer.name == self_) return nullptr;
  const uint64_t bytes = size_of(message);
  const std::shared_ptr<Account> account = account_of(peer.name);
  const uint64_t now = *account += bytes;
  Charge held(account.get(), [account, bytes](const void*) { *account -= bytes; });
  if (now <= limit_) return held;
  raise(Code::ResourceExhausted,
        "[Server] {} has {} bytes of feeds, tensors and requests under way on {}, with this "
        "message of {} bytes, and the limit is {}; run fewer steps at a time, send less in one, or "
        "start {} with a larger COHORT_PEER_BYTES",
        peer.name, now, self_, bytes, limit_, self_);
}

}  // namespace cohort::internal
