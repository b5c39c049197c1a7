#pragma once

#include "base/raise.h"
#include "collectives/collective_group.h"

namespace cohort::internal {

// The messages of one call, as an algorithm sees them: each has a sender, a receiver and a step.
class Exchange {
 public:
  // Announces the call to the next member. Around the ring every member is compared with another,
  // so no two members can wait for each other in different calls.
  Exchange(CollectiveGroup& group, const Call& call) : group_(group), call_(call) {
    if (size() > 1) group_.announce(call_, (rank() + 1) % size());
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

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

inline Buffer Exchange::receive_any(int from, uint64_t step) {
  std::vector<Buffer> payloads = receive(from, step);
  if (payloads.size() != 1) {
    raise(Code::DataLoss, "[{}] expected one payload from {}, got {}", name_of(call_.kind),
          group_.describe(from), payloads.size());
  }
  return std::move(payloads[0]);
}

inline Buffer Exchange::receive(int from, uint64_t step, size_t bytes) {
  Buffer payload = receive_any(from, step);
  if (payload.bytes.size() != bytes) {
    raise(Code::DataLoss, "[{}] expected {} bytes from {}, got {}", name_of(call_.kind), bytes,
          group_.describe(from), payload.bytes.size());
  }
  return payload;
}

}  // namespace cohort::internal
