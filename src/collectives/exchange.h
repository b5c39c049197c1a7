#pragma once

#include "collectives/group.h"

namespace cohort::internal {

// The messages of one call, as an algorithm sees them: who sends what to whom in which step.
class Exchange {
 public:
  // Tells the next member which call this is: around the ring everybody is compared with
  // somebody, so no two can wait for each other in different calls.
  Exchange(CollectiveGroup& group, const Call& call) : group_(group), call_(call) {
    if (size() > 1) group_.announce(call_, (rank() + 1) % size());
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const Call& call() const { return call_; }

  void send(int to, uint64_t step, Buffer payload) {
    group_.send(call_, to, step, {std::move(payload)});
  }
  void send(int to, uint64_t step, std::vector<Buffer> payloads) {
    group_.send(call_, to, step, std::move(payloads));
  }
  std::vector<Buffer> receive(int from, uint64_t step) {
    return group_.receive(call_, from, step).payloads;
  }
  // One payload, of that length; DataLoss otherwise.
  Buffer receive(int from, uint64_t step, size_t bytes);
  Buffer receive_any(int from, uint64_t step);  // of any length

 private:
  CollectiveGroup& group_;
  const Call& call_;
};

}  // namespace cohort::internal
