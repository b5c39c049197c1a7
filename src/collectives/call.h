#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/waiting.h"
#include "cohort/values.h"
#include "transport/connection.h"
#include "transport/message_codec.h"

namespace cohort::internal {

// The collectives. Messages contain the numbers.
enum class CallKind : uint8_t {
  Meet = 0,
  AllReduce = 1,
  Broadcast = 2,
  Reduce = 3,
  AllGather = 4,
  ReduceScatter = 5,
  AllToAll = 6,
  Barrier = 7,
  MakePack = 8,
  Split = 9,
  Calibrate = 10,
};

// A call of a collective by one member: what all members must agree on, and the deadline.
struct Call {
  CallKind kind = CallKind::Meet;
  ReduceOp op = ReduceOp::Sum;
  DType dtype = kUInt8;
  int root = 0;
  Shape shape = {};
  std::string detail = {};   // readable text about more that must agree
  std::string purpose = {};  // why the strategy makes the call; must agree
  bool on_gpu = false;       // where the values are
  uint64_t pack = 0;         // number of the call that made the pack of the values; 0: no pack
  uint64_t number = 0;       // in the order of the group's calls; the first rendezvous is 0
  // A hash of the place in the program; must agree, but 0 agrees with every other value.
  uint64_t site = 0;
  // Not compared:
  std::string file = {};  // of the site, without directories
  int line = 0;           // 0: not known
  Deadline deadline = Deadline::max();

  int64_t count() const { return shape.num_elements(); }
  static void list_fields(auto& fields, auto& c) {
    fields(c.number, at_most(c.kind, CallKind::Calibrate), at_most(c.op, ReduceOp::Product),
           at_most(c.dtype, kResource), c.root, c.shape, c.detail, c.on_gpu, c.pack, c.purpose,
           c.site, c.file, c.line);
  }
};

// "AllReduce": what messages begin with, in brackets.
std::string_view name_of(CallKind kind);
// "all_reduce(Sum) of float32 (3,) for apply_gradients at train.cc:12".
std::string to_string(const Call& call);

// "2 tensors of float32: (3,), (2, 4) [5f3a01]": the first shapes, and a hash of all.
std::string describe_tensors(DType dtype, std::span<const Shape> shapes);

// Throws InvalidArgument if the operation does not take the dtype.
void check_dtype(CallKind kind, ReduceOp op, DType dtype);

// Gives a call the purpose and the site of this thread. A group's first rendezvous has neither,
// since a worker that starts again meets workers that recover.
void set_purpose(Call& call);

// A hash of everything that must agree, except the number and the site.
uint64_t fingerprint(const Call& call);
inline bool same_site(uint64_t a, uint64_t b) { return a == b || a == 0 || b == 0; }
// Whether the calls of two members can be the same call.
bool agree(const Call& a, const Call& b);

// Combines two numbers into one, the same in every process.
uint64_t mix(uint64_t a, uint64_t b);

// The calls that this member has made lately, and those that other members have announced or
// refused. Thread-safe.
class CallLog {
 public:
  // Two members that disagree on one call.
  struct Difference {
    Call mine;
    int other = 0;
    Call theirs;
    std::string refused = {};  // why the other member's earlier call with that number was refused
  };

  // A call begins. What others have announced of it before is compared.
  std::optional<Difference> begin(const Call& mine);
  void end() {
    const std::lock_guard lock(mutex_);
    is_running_ = false;
    since_ = now();
  }
  // Another member makes `theirs`. Compared now, or when this member gets that far.
  std::optional<Difference> announced(int other, const Call& theirs);

  // Another member was asked for an invalid call. It owes the others a call with that number.
  struct Refusal {
    int other = 0;
    uint64_t number = 0;
    std::string why = {};
    std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();
  };
  void refused(Refusal refusal);
  // A refusal of that call or an earlier one, in whose place the member has announced no other call
  // for that time.
  std::optional<Refusal> refusal(uint64_t number, std::chrono::nanoseconds age) const;

  // That member's last refusal, if it has announced no other call in its place.
  std::optional<Refusal> refusal_of(int other) const;

  // How many calls have begun; the last of them.
  uint64_t begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  Call last() const {
    const std::lock_guard lock(mutex_);
    return begun_ == 0 ? Call{} : recent_[(begun_ - 1) % kRemembered];
  }
  // How many calls have ended: all with a lower number.
  uint64_t ended() const {
    const std::lock_guard lock(mutex_);
    return is_running_ ? begun_ - 1 : begun_;
  }
  // "in call 7, all_reduce(Sum) of float32 (3,), for 2.5 s", or what ended when.
  std::string activity() const;

 private:
  static constexpr size_t kRemembered = 64;
  using Seconds = double;
  static Seconds now();

  mutable Mutex mutex_;
  // Guarded by mutex_:
  std::array<Call, kRemembered> recent_;  // by number
  uint64_t begun_ = 0;                    // how many
  bool is_running_ = false;
  Seconds since_ = now();
  // By number and member; not begun here. The text is Difference::refused.
  std::map<std::pair<uint64_t, int>, std::pair<Call, std::string>> announced_;
  std::map<int, Refusal> refusals_;  // by member
  // Whether refusals_ has any: a wait asks again and again.
  std::atomic<bool> has_refusals_{false};
};

// Numbers calls, and runs them one after the other in that order, whichever threads make them.
// Thread-safe.
class CallOrder {
 public:
  // The numbers begin with 0.
  uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // The number that the next call will have, if no other thread makes a call before.
  uint64_t peek() const { return next_.load(std::memory_order_relaxed); }

  // Waits until all calls before are done. Returns whether that was before the deadline.
  bool wait_for_turn(uint64_t number, Deadline deadline = Deadline::max()) const {
    if (deadline != Deadline::max()) {
      // An atomic wait has no time limit.
      return poll_until(deadline, [&] { return turn_.load(std::memory_order_acquire) == number; },
                        {.min_sleep = kSleep, .max_sleep = kSleep});
    }
    uint64_t turn = 0;
    while ((turn = turn_.load(std::memory_order_acquire)) != number) {
      turn_.wait(turn, std::memory_order_acquire);
    }
    return true;
  }

  void done(uint64_t number) {
    turn_.store(number + 1, std::memory_order_release);
    turn_.notify_all();
  }

 private:
  static constexpr std::chrono::microseconds kSleep{100};

  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> turn_{0};
};

}  // namespace cohort::internal
