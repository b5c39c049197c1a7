#include "collectives/group_connections.h"

#include "base/raise.h"
#include "collectives/collective_group.h"

namespace cohort::internal {
namespace {

// How long it may take to open a connection for a message.
constexpr std::chrono::seconds kConnectTime{30};

}  // namespace

Links::Links(Group group) : group_(std::move(group)), links_(group_.peers.size()) {}

std::shared_ptr<Links> Links::open(Group group) {
  std::shared_ptr<Links> links(new Links(std::move(group)));
  links->group_.connections->listen(
      [weak = std::weak_ptr<Links>(links)](int rank, std::shared_ptr<Connection> connection) {
        if (const auto self = weak.lock()) self->adopt(rank, false, connection);
      });
  return links;
}

void Links::adopt(int member, bool opened_here, const std::shared_ptr<Connection>& connection) {
  {
    const std::lock_guard lock(mutex_);
    Link& link = links_[static_cast<size_t>(member)];
    ((self() < member) == opened_here ? link.by_lower : link.by_higher) = connection;
    adopted_.notify_all();
  }
  const std::weak_ptr<Links> weak = weak_from_this();
  connection->start({.received =
                         [weak, member](Message message) {
                           if (const auto links = weak.lock()) {
                             links->received(member, std::move(message));
                           }
                         },
                     .ended =
                         [weak, member](const Status& why) {
                           if (const auto links = weak.lock()) links->lost(member, why);
                         }});
}

void Links::attach(uint64_t group, std::weak_ptr<CollectiveGroup> receiver) {
  std::vector<Mail> early;
  std::map<int, Status> lost;
  const auto held = receiver.lock();
  // Until nothing is left, others go on to put mail aside: so nothing overtakes.
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = early_.find(group);
      if (found == early_.end()) {
        receivers_[group] = receiver;
        lost = lost_;
        break;
      }
      early = std::move(found->second);
      early_.erase(found);
    }
    for (Mail& mail : early) held->received(mail.from, std::move(mail.message));
  }
  for (const auto& [member, why] : lost) held->lost(member, why);
}

void Links::received(int from, Message message) {
  const uint64_t group = MessageReader(message, "a collective").number();
  std::shared_ptr<CollectiveGroup> receiver;
  {
    const std::lock_guard lock(mutex_);
    const auto found = receivers_.find(group);
    if (found == receivers_.end()) {
      if (closed_.contains(group)) return;
      early_[group].push_back({from, std::move(message)});
      return;
    }
    receiver = found->second.lock();
  }
  if (receiver) receiver->received(from, std::move(message));
}

void Links::lost(int member, const Status& why) {
  std::vector<std::shared_ptr<CollectiveGroup>> all;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(member, why);
    for (const auto& [group, receiver] : receivers_) {
      if (auto held = receiver.lock()) all.push_back(std::move(held));
    }
    adopted_.notify_all();
  }
  for (const auto& receiver : all) receiver->lost(member, why);
}

std::shared_ptr<Connection> Links::connection(int member) {
  if (auto found = existing(member)) return found;
  auto made = group_.connections->connect(member, std::chrono::steady_clock::now() + kConnectTime);
  adopt(member, true, made);
  return existing(member);
}

void Links::expect(int member, Deadline deadline) {
  if (existing(member)) return;
  if (self() < member) return adopt(member, true, connect_to_wanted(member, deadline));
  std::unique_lock lock(mutex_);
  const Link& link = links_[static_cast<size_t>(member)];
  adopted_.wait_until(lock, deadline,
                      [&] { return link.best() != nullptr || lost_.contains(member); });
  if (link.best() != nullptr) return;
  lock.unlock();
  throw_if_lost(member);
  raise(Code::Unavailable, "[Collective] {} did not come to the first rendezvous in time",
        describe(member));
}

std::shared_ptr<Connection> Links::connect_to_wanted(int member, Deadline deadline) {
  std::shared_ptr<Connection> made;
  const Status status = capture_status([&] {
    made = group_.connections->connect(member, deadline, [&] { return !has_lost(member); });
  });
  if (made) return made;
  throw_if_lost(member);
  throw Error(
      {.code = status.code,
       .message = fmt::format("[Collective] rank {} ({}) cannot connect with {}", self(),
                              group_.peers[static_cast<size_t>(self())].name, describe(member)),
       .cause = std::make_shared<const Status>(status)});
}

std::string Links::describe(int member) const {
  const Peer& peer = group_.peers[static_cast<size_t>(member)];
  return fmt::format("rank {} ({}{}{})", member, peer.name, peer.address.empty() ? "" : " at ",
                     peer.address);
}

}  // namespace cohort::internal
