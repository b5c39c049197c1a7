#include "transport/shared_handshake.h"

#include "base/raise.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

// With the version of what lies in the memory.
constexpr std::string_view kMagic = "cohort-memory 01";
static_assert(kMagic.size() + kNonceBytes == kGreetingBytes);
constexpr size_t kDescriptors = 3;  // the memory; the foreground's and the senders' bell

std::shared_ptr<PeerSignals> bells_of(FileDescriptor foreground, FileDescriptor background,
                                      FileDescriptor room) {
  return std::make_shared<PeerSignals>(std::array<FileDescriptor, PeerSignals::kCount>{
      std::move(foreground), std::move(background), std::move(room)});
}

}  // namespace

std::string greeting_with(const std::string& nonce) {
  if (nonce.size() != kNonceBytes) {
    raise(Code::InvalidArgument, "[SharedMemory] a nonce has {} characters, this one {}",
          kNonceBytes, nonce.size());
  }
  return std::string(kMagic) + nonce;
}

std::string nonce_in(const std::string& greeting) {
  return greeting.starts_with(kMagic) ? greeting.substr(kMagic.size()) : std::string();
}

SharedParts offer_memory(FileDescriptor socket, size_t arena_bytes) {
  auto mapping = std::make_shared<SharedMapping>(arena_bytes);
  auto [our_foreground, their_foreground] = unix_pair();
  auto [our_room, their_room] = unix_pair();
  const int offered[kDescriptors] = {mapping->descriptor(), their_foreground.get(),
                                     their_room.get()};
  send_with_descriptors(socket, kMagic, offered);
  mapping->forget_descriptor();
  return {std::move(mapping),
          bells_of(std::move(our_foreground), std::move(socket), std::move(our_room))};
}

SharedParts take_memory(FileDescriptor socket, Deadline deadline) {
  WithDescriptors offer = receive_with_descriptors(socket, kMagic.size(), kDescriptors, deadline);
  if (offer.bytes.empty()) {
    raise(Code::PermissionDenied,
          "[SharedMemory] the other process does not know this nonce, or no longer");
  }
  if (offer.bytes != kMagic || offer.descriptors.size() != kDescriptors) {
    raise(Code::DataLoss, "[SharedMemory] the other process offers something else than memory");
  }
  auto mapping = std::make_shared<SharedMapping>(std::move(offer.descriptors[0]));
  mapping->forget_descriptor();
  return {std::move(mapping), bells_of(std::move(offer.descriptors[1]), std::move(socket),
                                       std::move(offer.descriptors[2]))};
}

}  // namespace cohort::internal
