#include "transport/shared_memory.h"

#include "transport/shared_connection.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

constexpr size_t kDescriptors = 3;  // the memory; the foreground's and the sender's socket

std::shared_ptr<PeerSignals> signals_over(FileDescriptor foreground, FileDescriptor background,
                                          FileDescriptor room) {
  return std::make_shared<PeerSignals>(std::array<FileDescriptor, PeerSignals::kCount>{
      std::move(foreground), std::move(background), std::move(room)});
}

// The listening side's answer to a request. Throws Unavailable, ResourceExhausted.
SharedParts send_memory(FileDescriptor socket, size_t arena_bytes) {
  auto mapping = std::make_shared<SharedMapping>(arena_bytes);
  auto [our_foreground, their_foreground] = unix_pair();
  auto [our_room, their_room] = unix_pair();
  const int offered[kDescriptors] = {mapping->descriptor(), their_foreground.get(),
                                     their_room.get()};
  send_descriptors(socket, offered);
  mapping->forget_descriptor();
  return {std::move(mapping),
          signals_over(std::move(our_foreground), std::move(socket), std::move(our_room))};
}

}  // namespace

SharedParts request_memory(const std::string& name, const std::string& nonce, Deadline deadline) {
  FileDescriptor socket = connect_unix(name);
  auto offered = request_descriptors(socket, nonce, kDescriptors, deadline);
  auto mapping = std::make_shared<SharedMapping>(std::move(offered[0]));
  mapping->forget_descriptor();
  return {std::move(mapping),
          signals_over(std::move(offered[1]), std::move(socket), std::move(offered[2]))};
}

std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline) {
  return make_shared_connection(request_memory(name, nonce, deadline), 1, std::move(self),
                                std::move(peer));
}

std::string SharedMemoryListener::expect(Peer self, Peer peer, Deadline deadline, Arrived arrived) {
  return listener_.expect(
      deadline, [bytes = arena_bytes_, self = std::move(self), peer = std::move(peer),
                 arrived = std::move(arrived)](FileDescriptor socket) {
        arrived(make_shared_connection(send_memory(std::move(socket), bytes), 0, self, peer));
      });
}

}  // namespace cohort::internal
