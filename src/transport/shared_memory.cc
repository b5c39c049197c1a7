#include "transport/shared_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/raise.h"
#include "transport/shared_connection.h"
#include "transport/shared_handshake.h"
#include "transport/unix_socket.h"

namespace cohort::internal {

std::string shared_memory_domain() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unreadable;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", unreadable);
  return fmt::format("{} {} uid {}", boot, network.string(), ::geteuid());
}

std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline) {
  FileDescriptor socket = connect_unix(name);
  if (!is_same_user(socket)) {
    raise(Code::PermissionDenied, "[SharedMemory] the process at '{}' runs as another user", name);
  }
  send_with_descriptors(socket, greeting_with(nonce), {});
  SharedParts parts = take_memory(std::move(socket), deadline);
  return make_shared_connection(std::move(parts.mapping), std::move(parts.bells), 1,
                                std::move(self), std::move(peer));
}

}  // namespace cohort::internal
