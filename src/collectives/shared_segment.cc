#include <array>

#include "base/log.h"
#include "base/raise.h"
#include "collectives/algorithms.h"
#include "collectives/shared_engine.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
std::shared_ptr<SharedSegment> SharedSegment::map(FileDescriptor memory, size_t bytes) {
  const size_t size = sealed_size(memory);
  if (size != bytes) {
    raise(Code::DataLoss, "[SharedMemory] expected {} sealed bytes, got {}", bytes, size);
  }
  return std::make_shared<SharedSegment>(std::move(memory), bytes);
}

// How a descriptor is sent: each member listens at a Unix socket and sends the socket's name and a
// nonce to the first member, over their connection. The first member connects to each socket, sends
// the nonce and the descriptor, and then says so in a message. The member waits for that message
// alone, which ends with the group, and finds the descriptor in its socket.

namespace {

// Steps beside those of the algorithms.
constexpr uint64_t kSocketStep = uint64_t{1} << 61;
constexpr uint64_t kPassedStep = kSocketStep + 1;

// `address` is a nonce and the name of a socket.
void pass_descriptor(const Buffer& address, const SharedSegment& segment) {
  const std::string_view text(reinterpret_cast<const char*>(address.bytes.data()),
                              address.bytes.size());
  if (text.size() <= kNonceBytes) {
    raise(Code::DataLoss, "[SharedMemory] a socket's address has {} bytes", text.size());
  }
  const FileDescriptor socket = connect_unix(std::string(text.substr(kNonceBytes)));
  const std::array passed{segment.descriptor()};
  send_with_descriptors(socket, text.substr(0, kNonceBytes), passed);
}

std::shared_ptr<SharedSegment> make_and_pass(Exchange& exchange, size_t bytes) {
  std::shared_ptr<SharedSegment> segment;
  Status status = capture_status([&] { segment = SharedSegment::create(bytes); });
  for (int rank = 1; rank < exchange.size(); ++rank) {
    const Buffer address = exchange.receive_any(rank, kSocketStep);
    if (status.ok()) status = capture_status([&] { pass_descriptor(address, *segment); });
    exchange.send(rank, kPassedStep, Buffer{});
  }
  throw_if_error(status);
  return segment;
}

// The descriptor that came with the nonce. Connections of other processes are dropped.
FileDescriptor take_descriptor(const FileDescriptor& listener, const std::string& nonce) {
  while (const FileDescriptor socket = accept_unix(listener)) {
    if (!is_same_user(socket)) continue;
    FileDescriptor found;
    (void)capture_status([&] {
      auto got = receive_with_descriptors(socket, kNonceBytes, 1, Deadline{});
      if (got.bytes == nonce && got.descriptors.size() == 1) found = std::move(got.descriptors[0]);
    });
    if (found) return found;
  }
  raise(code_of_errno(errno), "[SharedMemory] no memory from the first member: {}",
        errno_text(errno));
}

std::shared_ptr<SharedSegment> receive_and_map(Exchange& exchange, size_t bytes) {
  const std::string nonce = random_text();
  const std::string name = "cohort-" + random_text();
  FileDescriptor listener;
  const Status status = capture_status([&] { listener = listen_unix(name); });
  const std::string address = nonce + name;
  exchange.send(0, kSocketStep, copy_of(std::as_bytes(std::span(address))));
  exchange.receive_any(0, kPassedStep);
  throw_if_error(status);
  return SharedSegment::map(take_descriptor(listener, nonce), bytes);
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
  const Status status = capture_status([&] {
    segment =
        exchange.rank() == 0 ? make_and_pass(exchange, bytes) : receive_and_map(exchange, bytes);
  });
  if (!status.ok()) log_info("[Collective] memory is not shared: {}", status.to_string());
  const bool agreed = all_agree(exchange, status.ok());
  if (segment) segment->forget_descriptor();
  return agreed ? segment : nullptr;
}

}  // namespace cohort::internal
