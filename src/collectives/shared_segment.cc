#include <array>
#include <optional>

#include "base/log.h"
#include "base/raise.h"
#include "collectives/algorithms.h"
#include "collectives/shared_engine.h"
#include "transport/descriptor_listener.h"
#include "transport/unix_socket.h"

namespace cohort::internal {

std::shared_ptr<SharedSegment> SharedSegment::map(FileDescriptor memory, size_t bytes) {
  const size_t size = sealed_size(memory);
  if (size != bytes) {
    raise(Code::DataLoss, "[SharedMemory] expected {} sealed bytes, got {}", bytes, size);
  }
  return std::make_shared<SharedSegment>(std::move(memory), bytes);
}

namespace {

// A step beside those of the algorithms.
constexpr uint64_t kAddressStep = uint64_t{1} << 61;
// A member that waits for the descriptor does not see that the group is closed.
constexpr std::chrono::seconds kDescriptorTime{10};

// The first member makes the segment, and tells each other member where to ask for the descriptor:
// a nonce and the name of a socket, or nothing if the segment cannot be made.
std::shared_ptr<SharedSegment> make_and_offer(Exchange& exchange, size_t bytes,
                                              std::optional<DescriptorListener>& listener) {
  std::shared_ptr<SharedSegment> segment;
  const Status status = capture_status([&] {
    segment = SharedSegment::create(bytes);
    listener.emplace();
  });
  for (int rank = 1; rank < exchange.size(); ++rank) {
    std::string address;
    if (status.ok()) {
      const auto send = [segment](const FileDescriptor& socket) {
        send_descriptors(socket, std::array{segment->descriptor()});
      };
      address = listener->expect(Deadline::max(), send) + listener->name();
    }
    exchange.send(rank, kAddressStep, copy_of(std::as_bytes(std::span(address))));
  }
  throw_if_error(status);
  return segment;
}

std::shared_ptr<SharedSegment> receive_and_map(Exchange& exchange, size_t bytes) {
  const Buffer address = exchange.receive_any(0, kAddressStep);
  const std::string text(reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size());
  if (text.size() <= kNonceBytes) {
    raise(Code::Unavailable, "[SharedMemory] no memory from the first member");
  }
  auto descriptors =
      request_descriptors(connect_unix(text.substr(kNonceBytes)), text.substr(0, kNonceBytes), 1,
                          std::chrono::steady_clock::now() + kDescriptorTime);
  return SharedSegment::map(std::move(descriptors[0]), bytes);
}

bool all_agree(Exchange& exchange, bool own) {
  const std::byte vote{own};
  std::byte result{};
  doubling_all_reduce(
      exchange, {.op = ReduceOp::Min, .dtype = kUInt8, .values = copy_of({&vote, 1})}, &result);
  return result == std::byte{1};
}

}  // namespace

std::shared_ptr<SharedSegment> share_segment(Exchange& exchange, size_t bytes) {
  std::shared_ptr<SharedSegment> segment;
  std::optional<DescriptorListener> listener;  // of the first member, until all have agreed
  const Status status = capture_status([&] {
    segment = exchange.rank() == 0 ? make_and_offer(exchange, bytes, listener)
                                   : receive_and_map(exchange, bytes);
  });
  if (!status.ok()) log_info("[Collective] memory is not shared: {}", status.to_string());
  const bool agreed = all_agree(exchange, status.ok());
  listener.reset();  // it reads the descriptor
  if (segment) segment->forget_descriptor();
  return agreed ? segment : nullptr;
}

}  // namespace cohort::internal
