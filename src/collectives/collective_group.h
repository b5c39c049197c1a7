#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>

#include "base/activity.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "collectives/call.h"
#include "collectives/group_connections.h"
#include "tensor/memory.h"

namespace cohort::internal {

class CollectiveGroup;
class Engine;

// An engine for members that do not share memory, other than messages. All members choose the same
// engine.
struct EngineChoice {
  std::string name = {};  // what members compare before the group is formed, see Member::engine
  // All members call it in the first rendezvous of the group, which is `rendezvous`.
  std::function<std::unique_ptr<Engine>(CollectiveGroup& group, const Call& rendezvous)> make = {};
};

struct GroupSettings {
  // After a wait of this length the log and the process's Activity say which members are missing.
  std::chrono::nanoseconds report_after = stall_limit();
  // How long a member whose call was rejected may take to issue a corrected one.
  std::chrono::nanoseconds refusal_time = std::chrono::seconds(2);
  // How long the members may take to come to the first rendezvous.
  std::chrono::nanoseconds meeting_time = std::chrono::seconds(60);
  EngineChoice engine = {};
};

// Memory for results, used again once the program holds the old result no more: making a small
// tensor takes longer than a small reduction, and touching fresh memory longer than a large one.
// Not thread-safe.
class ResultMemory {
 public:
  // Arbitrary content, which the caller may write until it hands the tensor out.
  WritableTensor take(DType dtype, const Shape& shape);

 private:
  static constexpr size_t kMaxKept = 4;
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;  // of all; a larger one is not kept

  // Makes room for a tensor of that size: drops those that were used least recently.
  void make_room(int64_t bytes);

  std::vector<WritableTensor> kept_;  // used last comes last
  int64_t kept_bytes_ = 0;
};

// Does work on a thread of its own, in order. The thread starts with the first work. The destructor
// waits until all work is done.
class WorkQueue {
 public:
  ~WorkQueue() {
    Thread thread;
    {
      const std::lock_guard lock(mutex_);
      std::swap(thread, thread_);
    }
    thread.request_stop();
  }

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (!thread_.joinable()) {
      thread_ = Thread("collectives", [this](const std::stop_token& stop) { run(stop); });
    }
    changed_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !work_.empty(); })) {
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_
  Thread thread_;                           // guarded by mutex_
};

// One member of a group of tasks: the order of its calls, the messages that members exchange, and
// what it knows of the other members. The Engine carries the calls out. Thread-safe.
class CollectiveGroup : public std::enable_shared_from_this<CollectiveGroup> {
 public:
  // Meets the other members. `members` has their numbers in `links`, by rank, this task's among
  // them. All members use the same `id`, and no other group uses it. `outer` is set for a level of
  // a two-level engine: it is the larger group whose calls this group's calls are parts of. A
  // failure here is a failure of the outer group first, and errors use the outer group's ranks.
  static std::shared_ptr<CollectiveGroup> open(std::shared_ptr<Links> links, uint64_t id,
                                               std::vector<int> members,
                                               const GroupSettings& settings,
                                               std::weak_ptr<CollectiveGroup> outer = {});
  ~CollectiveGroup();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::string& name_of(int rank) const {
    return links_->group().peers[static_cast<size_t>(member(rank))].name;
  }
  // See Group::hosts.
  const std::string& host_of(int rank) const {
    return links_->group().hosts[static_cast<size_t>(member(rank))];
  }
  // "rank 1 (/job:worker/replica:0/task:1)"
  std::string describe(int rank) const;
  const std::shared_ptr<Links>& links() const { return links_; }
  const std::vector<int>& members() const { return members_; }
  uint64_t id() const { return id_; }
  const GroupSettings& settings() const { return settings_; }
  Engine& engine() const { return *engine_; }
  // For results of the call that runs.
  ResultMemory& results() { return results_; }

  // Runs `body` as the call with that number (one of next_number()), after all calls before it. If
  // `body` fails, the group is closed, because the others wait for this member.
  uint64_t next_number() { return order_.next_number(); }
  void run(Call& call, const std::function<void()>& body);
  // Takes the next number; `work` gets it on the group's thread.
  void start(std::function<void(uint64_t number)> work);
  // The program asked this member for an invalid call, which was not made. The other members learn
  // of it, because they may have made theirs: unless this member makes another call in its place
  // within settings().refusal_time, the group is closed for all. A member that has refused the same
  // call goes on to wait.
  void refuse(const std::string& why);
  // How many subgroups of these members were made of this group before.
  uint64_t count_subgroup(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    return subgroups_[ranks]++;
  }

  // The messages of a call's algorithm.
  void send(const Call& call, int to, uint64_t step, std::vector<Buffer> payloads);
  Message receive(const Call& call, int from, uint64_t step);
  // Messages apart from calls.
  void send_tagged(int to, uint32_t tag, const Tensor& value);
  Tensor receive_tagged(int from, uint32_t tag, Deadline deadline);
  // Says to `rank` which call this is. A member that makes another call closes the group. Does not
  // wait, never throws.
  void announce(const Call& call, int rank);

  // For an engine that has found that members, perhaps `rank`, make another call: the members
  // announce their calls to each other, which closes the group for all.
  [[noreturn]] void differ(const Call& call, int rank);

  // Whether that call cannot succeed any more; then throw_if_over throws the reason.
  bool is_over(uint64_t call) const { return call >= over_from_.load(std::memory_order_acquire); }
  void throw_if_over(uint64_t call) const;
  // Closes the group on all members. The first cause counts.
  void fail(Status why);
  void leave();

  // For waits.
  struct Awaited {
    const Call* call = nullptr;  // null: a value with a tag
    uint64_t tag = 0;
    int from = 0;  // the member that this one needs something of
    Deadline deadline = Deadline::max();
  };
  struct Wait {
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
    std::chrono::nanoseconds next_report;
    bool has_asked = false;  // for the next report, or for the error at the deadline
    WaitNote note = {};      // since the first report
  };
  Wait begin_wait() const { return {.next_report = settings_.report_after}; }
  // Throws DeadlineExceeded at the deadline. After settings().report_after, and again after twice
  // the time, logs which members are missing and what they were last doing; the awaited member may
  // itself wait for another one. All members are asked shortly before. Returns when to look again,
  // at the latest.
  std::chrono::steady_clock::time_point look_at_clock(Wait& wait, const Awaited& awaited);

  // For Links, whose numbers of the members these are. A message begins with the group's number.
  // Called by one thread at a time for each member.
  void received(int from, Message message);
  void lost(int member, const Status& why);

 private:
  enum class Kind : uint8_t { Step, Announce, Tagged, Failed, Left, Question, Answer, Refused };

  CollectiveGroup(std::shared_ptr<Links> links, uint64_t id, std::vector<int> members,
                  const GroupSettings& settings, std::weak_ptr<CollectiveGroup> outer);
  void meet();
  int rank_of(int member) const;
  int member(int rank) const { return members_[static_cast<size_t>(rank)]; }
  template <typename... Fields>
  Message message(Kind kind, const Fields&... fields) const {
    Message made;
    MessageWriter(made, name_of(rank_))(id_, kind, fields...);
    return made;
  }
  void dispatch(int from, Message message);
  // Returns true without a difference; otherwise closes the group.
  bool check(const std::optional<CallLog::Difference>& difference);
  Message await_mail(const MailKey& key, const Awaited& awaited);
  void member_left(int rank, uint64_t calls);
  void throw_if_left(int rank) const;
  // `call`: which call this member makes.
  [[noreturn]] void throw_left(int rank, uint64_t calls, std::optional<uint64_t> call = {}) const;
  void tell_all(const Message& message, int except = -1);
  void tell_refusal(const CallLog::Refusal& refusal);
  // Reads what a member has sent before its connection ended: perhaps why the group is closed.
  void drain_messages(int member, uint64_t call);
  void run_checked(Call& call, const std::function<void()>& body);
  void await_turn(const Call& call);
  void throw_if_refused(const Call& call);
  Status status_of(const CallLog::Refusal& refusal) const;
  // Why that member, which is gone, did not make the call; nullopt if it did not say.
  std::optional<Status> refusal_of(int rank, uint64_t call) const;

  // Which members are missing, in progress_query.cc. A member that has waited for long asks all
  // members which call they have begun. A question goes from member to member over open
  // connections, and each answer goes back the way that the question came, so no connection is
  // opened for it.
  struct Standing {      // what a member answers
    uint64_t begun = 0;  // how many calls
    std::string activity = {};
  };
  struct Question {
    uint64_t number = 0;
    int from = 0;  // the member that passed it on
  };
  struct Missing {
    int rank;
    std::string activity;
  };
  // To the last question, by rank.
  std::map<int, Standing> answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }
  void ask_all();
  void answer_question(int from, MessageReader& reader);
  void pass_answer_on(MessageReader& reader);
  std::vector<Missing> find_missing(const Awaited& awaited) const;
  std::string text_of(const Awaited& awaited) const;
  void report(Wait& wait, const Awaited& awaited) const;
  [[noreturn]] void give_up(const Wait& wait, const Awaited& awaited);

  const std::shared_ptr<Links> links_;
  const uint64_t id_;
  const std::vector<int> members_;  // by rank, numbers in links_
  const int rank_;
  const GroupSettings settings_;
  const std::weak_ptr<CollectiveGroup> outer_;
  std::unique_ptr<Engine> engine_;            // constant after the rendezvous
  std::atomic<Engine*> met_engine_{nullptr};  // the same, once the rendezvous has ended

  CallOrder order_;
  CallLog log_;
  Mailbox mailbox_;
  ResultMemory results_;  // used by the call that runs
  // The call that this member last refused. All others learn of the call that takes its place.
  std::atomic<uint64_t> refused_{UINT64_MAX};
  // Calls from this number on fail.
  std::atomic<uint64_t> over_from_{UINT64_MAX};

  mutable Mutex mutex_;
  // Guarded by mutex_:
  std::optional<Status> failure_;
  std::map<int, uint64_t> left_;  // how many calls they have done
  bool is_left_ = false;          // by this member
  std::map<std::vector<int>, uint64_t> subgroups_;
  uint64_t asked_ = 0;  // how many questions
  std::map<int, Standing> answers_;
  std::map<int, Question> questions_;  // the last one of each asker
  Mutex starting_;                     // keeps the numbers in the order of the thread's work

  WorkQueue thread_;  // last: its work uses the rest
};

// Waits until is_there(). Throws if the group is closed, and at the call's deadline.
template <typename IsThere>
void poll_in_group(CollectiveGroup& group, const CollectiveGroup::Awaited& awaited,
                   const IsThere& is_there, const PollPolicy& policy = {}) {
  const uint64_t call = awaited.call->number;
  CollectiveGroup::Wait wait = group.begin_wait();
  const Poll poll(policy);
  while (!is_there()) {
    if (group.is_over(call) && !is_there()) group.throw_if_over(call);
    poll.pause([&] { group.look_at_clock(wait, awaited); });
  }
}

}  // namespace cohort::internal
