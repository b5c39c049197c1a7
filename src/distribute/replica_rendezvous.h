#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "base/waiting.h"
#include "distribute/merge_point.h"

namespace cohort::internal {

// Where the threads of one run meet, and where the run's failure is kept.
class ReplicaRendezvous final : public MergePoint {
 public:
  explicit ReplicaRendezvous(size_t replicas);

  size_t size() const override { return seats_.size(); }
  std::span<void* const> meet(size_t replica, const Call& call, const Work& once,
                              const Work& each) override;
  void meet_again(size_t replica) override;
  Letter& letter(size_t replica) override;
  const GraphBuilder* shared_graph() const override { return shared_graph_; }

  // Makes it ready for a new run; nobody is inside. With a graph that all add to, one replica runs
  // at a time: replica 0 first, and the next one when it meets or ends.
  void begin(const GraphBuilder* shared_graph);
  // Before the replica's function: waits for its turn. False when the run has failed meanwhile.
  bool enter(size_t replica);
  // It threw; the first exception stays. Those who wait, or come to a meeting later, throw.
  void fail(size_t replica, std::exception_ptr exception);
  // It has ended, one way or the other.
  void leave(size_t replica);
  // After all have left: throws what went wrong.
  void rethrow_failure();

  // For a replica other than the first: waits until ready(), which replica 0 makes true and
  // announces. False when it will not: it waits in a meeting, or has ended.
  bool await_first(const std::function<bool()>& ready);
  void announce();

 private:
  using Timeout = std::chrono::duration<double>;
  static constexpr Timeout kForEver{0};

  // What counts_ is made of.
  static constexpr uint32_t kArrived = 1;
  static constexpr uint32_t kLeft = 1u << 16;
  static size_t arrived(uint32_t counts) { return counts & 0xffff; }
  static size_t left(uint32_t counts) { return counts >> 16; }
  // The bit of phase_, and the value of turn_, that say that the run is broken.
  static constexpr uint32_t kBroken = 1u << 31;

  static constexpr uint32_t kNothing = ~0u;
  struct alignas(64) Seat {
    Call call = {};
    bool has_once = false;
    bool has_each = false;
    uint32_t phase = 0;  // how many events this replica has seen
    // Which event the replica came for. Others do not write here when that has happened: a line of
    // memory that two cores write costs more than all the rest.
    std::atomic<uint32_t> awaits = kNothing;
    std::atomic<bool> left = false;
  };
  // One is written while others may still read the other one.
  struct Letters {
    std::array<std::unique_ptr<Letter>, 2> pair;
    size_t next = 0;
  };

  // `prepare` is done by the last to arrive, while the others wait.
  void arrive(size_t replica, void (ReplicaRendezvous::*prepare)());
  void open();
  void open_again();
  void check_calls();        // sets mismatch_
  void break_off_unequal();  // some wait, the others have left
  void run_once(const Work& once);
  void run_each(size_t replica, const Work& each);
  // The next event that all wait for.
  void publish(size_t replica);
  void await(size_t replica, Timeout timeout = kForEver);
  // The value of phase_ once that is not `before`; `before` when the time is up.
  uint32_t await_phase(uint32_t before, Timeout timeout);
  void wake_sleepers();
  // The others have not come in time. Returns when they come after all just now.
  void give_up(size_t replica, uint32_t before);
  void await_turn(size_t replica);
  void pass_turn(size_t next);
  void break_off();
  void break_off_with(const Error& error);
  [[noreturn]] void throw_broken(size_t replica);
  // Whether the replica has come to a meeting that has not opened yet.
  bool waits(const Seat& seat) const;
  std::string replicas_that(bool wait) const;

  const SpinWait waiting_;
  std::vector<Seat> seats_;
  std::vector<Letters> letters_;  // by replica
  // Written by the last to arrive, read by all until they have left the meeting.
  std::vector<void*> owns_;
  Status mismatch_;
  const GraphBuilder* shared_graph_ = nullptr;
  bool in_turns_ = false;

  // What is looked at again and again lies apart from what is written meanwhile.
  alignas(64) std::atomic<uint32_t> phase_{0};   // events so far, and kBroken
  alignas(64) std::atomic<uint32_t> counts_{0};  // arrived in the low half, ended in the high half
  std::atomic<uint32_t> finished_{0};            // how many have done their `each`
  std::atomic<uint32_t> turn_{0};

  alignas(64) std::atomic<int> watchers_{0};
  std::mutex mutex_;
  std::condition_variable announced_;
  std::atomic<int> sleepers_{0};
  std::condition_variable published_;
  std::exception_ptr thrown_;   // by `once` or `each` of this meeting
  bool once_failed_ = false;    // then nobody does its share; thrown_ may also come from a share
  std::exception_ptr failure_;  // guarded by mutex_ until all have left
  bool common_ = false;         // guarded by mutex_; failure_ is thrown in all who wait
};

}  // namespace cohort::internal
