#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cohort/error.h"

namespace cohort::internal {

class GraphBuilder;  // ops/dispatch.h

// Where the replicas of one run meet. Each meeting is one call by every replica; the calls must
// agree in `what` and `detail`, else all replicas throw FailedPrecondition that names both calls
// and their replicas. A replica that has finished, or failed, while others wait ends the meeting
// for all: nobody waits for ever.
//
// Waiting looks again and again for some microseconds, then sleeps.
class MergePoint {
 public:
  // Long enough that only a program that is stuck waits for it.
  static constexpr std::chrono::minutes kDefaultTimeout{30};

  using Work = std::function<void(std::span<void* const> owns)>;

  struct Call {
    std::string_view what;  // "merge_call", "all_reduce"; a literal
    size_t detail;          // a hash of the rest: types, op, shapes
    void* own;              // this replica's part
    // How long the others may take to come; 0 = for ever. Whoever waits longer throws
    // DeadlineExceeded that names them, and the meeting is over for all.
    std::chrono::duration<double> timeout = kDefaultTimeout;
    // That of replica 0 is run by whoever comes last, while the others wait; it does not throw.
    const Work* last = nullptr;
  };

  virtual ~MergePoint() = default;
  // Number of local replicas.
  virtual size_t size() const = 0;
  // The graph that all replicas add to, one after the other, when run() was called while it was
  // being built; null otherwise.
  virtual const GraphBuilder* shared_graph() const { return nullptr; }
  // Waits until all have come, then runs `once(owns)` in one of them, then `each(owns)` in all of
  // them at the same time, then lets all go on together. Either may be empty. An exception of
  // either is thrown in every replica.
  // Returns everybody's `own`, which with neither of them may be gone already.
  virtual std::span<void* const> meet(size_t replica, const Call& call, const Work& once,
                                      const Work& each) = 0;

  // Waits until all replicas are here, after a meeting at which each has seen that all want the
  // same. Quicker than a meeting, since nothing is compared: none may fail or call anything else in
  // between.
  virtual void meet_again(size_t replica) = 0;

  // What a replica can bring as its `own` to a meeting so that the others may go on reading it
  // afterwards, until they come to another meeting: nobody has to wait for the readers.
  // Its first line of memory says all about a few values: what another core wrote comes line by
  // line, each as slow as a small sum.
  struct alignas(64) Letter {
    static constexpr size_t kMaxBytes = 1 << 10;
    static constexpr size_t kMaxAddresses = 5;
    uint64_t signature = 0;
    void* sender = nullptr;
    void* results = nullptr;
    std::array<const std::byte*, kMaxAddresses> addresses = {};
    alignas(64) std::array<std::byte, kMaxBytes> content;
  };
  // For the next meeting of this replica; the one of the meeting before stays as it is.
  virtual Letter& letter(size_t replica) = 0;
};

}  // namespace cohort::internal
