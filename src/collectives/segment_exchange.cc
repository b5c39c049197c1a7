#include "collectives/segment_exchange.h"

#include <cstring>

#include "base/log.h"
#include "collectives/algorithms.h"

namespace cohort::internal {
namespace {

// Steps beside those of the algorithms.
constexpr uint64_t kNameStep = uint64_t{1} << 61;

Buffer to_buffer(const SegmentName& name) {
  Message message;
  MessageWriter writer(message);
  name.write(writer);
  const FreshBuffer bytes(message.header.size());
  std::memcpy(bytes.data, message.header.data(), message.header.size());
  return bytes.buffer;
}

SegmentName to_name(const Buffer& buffer) {
  Message message;
  message.header.assign(reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size());
  MessageReader reader(message, "the name of a segment");
  return SegmentName::read(reader);
}

bool all_agree(Exchange& exchange, bool own) {
  const FreshBuffer vote(1);
  vote.data[0] = std::byte{own};
  std::byte result{};
  doubling_all_reduce(exchange, {.op = ReduceOp::Min, .dtype = kUInt8, .values = vote.buffer},
                      &result);
  return result == std::byte{1};
}

}  // namespace

std::shared_ptr<SharedSegment> share_segment(Exchange& exchange, size_t bytes) {
  std::shared_ptr<SharedSegment> segment;
  const Status status = capture_status([&] {
    if (exchange.rank() == 0) {
      const Status made = capture_status([&] { segment = SharedSegment::create(bytes); });
      const Buffer name = to_buffer(segment ? segment->name() : SegmentName{});
      for (int rank = 1; rank < exchange.size(); ++rank) exchange.send(rank, kNameStep, name);
      throw_if_error(made);
    } else {
      segment = SharedSegment::open(to_name(exchange.receive_any(0, kNameStep)));
    }
  });
  if (!status.ok()) log_info("[Collective] memory is not shared: {}", status.to_string());
  const bool agreed = all_agree(exchange, status.ok());
  if (segment) segment->hide();
  return agreed ? segment : nullptr;
}

}  // namespace cohort::internal
