#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "collectives/rendezvous.h"

namespace cohort::internal {

// One task's connections with the members of its groups, which it opens when they are first needed,
// and whose messages it hands to the group that they are for. Groups that are made of the members
// of another one share its links. Thread-safe. Must be held by a shared_ptr.
class Links : public std::enable_shared_from_this<Links> {
 public:
  // A group, as its links see it. Members are numbered as in the Rendezvous.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // A message begins with the group's number. Called by one thread at a time for each member.
    virtual void received(int from, Message message) = 0;
    virtual void lost(int member, const Status& why) = 0;
  };

  static std::shared_ptr<Links> open(std::shared_ptr<Rendezvous> rendezvous);
  ~Links();

  int self() const { return rendezvous_->rank(); }
  const std::vector<Peer>& members() const { return rendezvous_->members(); }

  // From here on `receiver` gets what is for that group, first of all what came before.
  void attach(uint64_t group, std::weak_ptr<Receiver> receiver);
  // What comes for that group is dropped from here on.
  void detach(uint64_t group);

  // Opens a connection, or waits until the member has, if its number is lower. Throws Unavailable
  // with its name at the deadline.
  void expect(int member, Deadline deadline);
  bool is_connected(int member) const;
  // Opens a connection where there is none.
  void send(int to, Message message);
  // Tells all groups that the member is gone, as when its connection ends.
  void lost(int member, const Status& why);
  // As Connection's.
  bool deliver_until(int from, const std::function<bool()>& done, Deadline deadline);

 private:
  // Two members may open one at the same time; that of the lower one is used then.
  struct Link {
    std::shared_ptr<Connection> by_lower;
    std::shared_ptr<Connection> by_higher;
    std::shared_ptr<Connection> best() const { return by_lower ? by_lower : by_higher; }
  };
  struct Mail {
    int from;
    Message message;
  };

  explicit Links(std::shared_ptr<Rendezvous> rendezvous);
  void adopt(int member, bool opened_here, const std::shared_ptr<Connection>& connection);
  std::shared_ptr<Connection> existing(int member) const;
  std::shared_ptr<Connection> connection(int member);
  void received(int from, Message message);

  const std::shared_ptr<Rendezvous> rendezvous_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any adopted_;
  // Guarded by mutex_:
  std::vector<Link> links_;
  std::map<uint64_t, std::weak_ptr<Receiver>> receivers_;
  std::map<uint64_t, std::vector<Mail>> early_;  // for groups that are not there yet
  std::set<uint64_t> closed_;                    // groups that nobody will be in again
  std::map<int, Status> lost_;
};

}  // namespace cohort::internal
