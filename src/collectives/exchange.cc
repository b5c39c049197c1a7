#include "collectives/exchange.h"

#include "base/raise.h"

namespace cohort::internal {

Buffer Exchange::receive_any(int from, uint64_t step) {
  std::vector<Buffer> payloads = receive(from, step);
  if (payloads.size() != 1) {
    raise(Code::DataLoss, "[{}] expected one payload from {}, got {}", name_of(call_.kind),
          group_.describe(from), payloads.size());
  }
  return std::move(payloads[0]);
}

Buffer Exchange::receive(int from, uint64_t step, size_t bytes) {
  Buffer payload = receive_any(from, step);
  if (payload.bytes.size() != bytes) {
    raise(Code::DataLoss, "[{}] expected {} bytes from {}, got {}", name_of(call_.kind), bytes,
          group_.describe(from), payload.bytes.size());
  }
  return payload;
}

}  // namespace cohort::internal
