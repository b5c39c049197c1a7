#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "membership/member_connections.h"
#include "transport/message.h"

namespace cohort::internal {

class CollectiveGroup;

// One task's connections with the members of a Group. It opens a connection when it is first needed
// and hands each message to the collective group that the message is for. A subgroup shares the
// links of its parent. Members are numbered by their rank in the Group. Thread-safe. Must be held
// by a shared_ptr.
class Links : public std::enable_shared_from_this<Links> {
 public:
  static std::shared_ptr<Links> open(Group group);

  int self() const { return group_.rank; }
  const Group& group() const { return group_; }

  // From here on `receiver` gets the messages for that group, beginning with those that came
  // before.
  void attach(uint64_t group, std::weak_ptr<CollectiveGroup> receiver);
  // Messages for that group are dropped from here on.
  void detach(uint64_t group) {
    const std::lock_guard lock(mutex_);
    receivers_.erase(group);
    closed_.insert(group);
  }

  // Opens a connection or, if the member's number is lower, waits until the member has opened one.
  // Throws Unavailable with its name at the deadline, and why the member was lost if that happens
  // before.
  void expect(int member, Deadline deadline);
  bool is_connected(int member) const { return existing(member) != nullptr; }
  bool has_lost(int member) const {
    const std::lock_guard lock(mutex_);
    return lost_.contains(member);
  }
  // Opens a connection if none is open.
  void send(int to, Message message) { connection(to)->send(std::move(message)); }
  // All groups learn that the member is gone, as when its connection ends.
  void lost(int member, const Status& why);
  // As Connection's.
  bool deliver_until(int from, const std::function<bool()>& done, Deadline deadline) {
    return connection(from)->deliver_until(done, deadline);
  }

 private:
  // Two members may open a connection at the same time; then that of the lower member is used.
  struct Link {
    std::shared_ptr<Connection> by_lower;
    std::shared_ptr<Connection> by_higher;
    std::shared_ptr<Connection> best() const { return by_lower ? by_lower : by_higher; }
  };
  struct Mail {
    int from;
    Message message;
  };

  explicit Links(Group group);
  void adopt(int member, bool opened_here, const std::shared_ptr<Connection>& connection);
  std::shared_ptr<Connection> existing(int member) const {
    const std::lock_guard lock(mutex_);
    return links_[static_cast<size_t>(member)].best();
  }
  std::shared_ptr<Connection> connection(int member);
  // Gives up when the member is lost.
  std::shared_ptr<Connection> connect_to_wanted(int member, Deadline deadline);
  void throw_if_lost(int member) const {
    const std::lock_guard lock(mutex_);
    if (const auto lost = lost_.find(member); lost != lost_.end()) throw Error(lost->second);
  }
  std::string describe(int member) const;  // its rank, name and address
  void received(int from, Message message);

  const Group group_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any adopted_;
  // Guarded by mutex_:
  std::vector<Link> links_;
  std::map<uint64_t, std::weak_ptr<CollectiveGroup>> receivers_;
  std::map<uint64_t, std::vector<Mail>> early_;  // for groups that are not attached yet
  std::set<uint64_t> closed_;                    // groups that have ended here
  std::map<int, Status> lost_;
};

// What a message is for. Messages with one key are taken in the order in which they came.
struct MailKey {
  enum class Kind : uint8_t { Step, Tagged };

  Kind kind = Kind::Step;
  int from = 0;
  uint64_t call = 0;  // its number; of Tagged the tag
  uint64_t step = 0;  // of the algorithm

  auto operator<=>(const MailKey&) const = default;
};

// Messages that no call has taken yet. Thread-safe.
class Mailbox {
 public:
  void put(const MailKey& key, Message message) {
    const std::lock_guard lock(mutex_);
    mail_[key].push_back(std::move(message));
  }

  bool has(const MailKey& key) const {
    const std::lock_guard lock(mutex_);
    return mail_.contains(key);
  }

  std::optional<Message> take(const MailKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = mail_.find(key);
    if (found == mail_.end()) return std::nullopt;
    std::optional<Message> message(std::move(found->second.front()));
    found->second.pop_front();
    if (found->second.empty()) mail_.erase(found);
    return message;
  }

 private:
  mutable Mutex mutex_;
  std::map<MailKey, std::deque<Message>> mail_;  // guarded by mutex_; no empty queues
};

}  // namespace cohort::internal
