#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/connection.h"

namespace cohort::internal {

// Stream sockets inside one host. Their names are not files ("abstract") and vanish with the
// process that made them. The sockets do not block, and no child process inherits them.

// Random characters, for a nonce or for a name.
inline constexpr size_t kNonceBytes = 32;
std::string random_text();

// Throws ResourceExhausted, AlreadyExists for a name that is taken.
FileDescriptor listen_unix(const std::string& name);
// Throws Unavailable when no process listens at that name, PermissionDenied when the process there
// runs as another user, ResourceExhausted.
FileDescriptor connect_unix(const std::string& name);
// An empty descriptor when no process is waiting.
FileDescriptor accept_unix(const FileDescriptor& listener);
std::pair<FileDescriptor, FileDescriptor> unix_pair();

// Whether the process at the other end runs as the user of this process.
bool is_same_user(const FileDescriptor& socket);

// Sends the bytes and with them the descriptors. Throws Unavailable when the other process is gone.
void send_with_descriptors(const FileDescriptor& socket, std::string_view bytes,
                           std::span<const int> descriptors);

struct WithDescriptors {
  std::string bytes;
  std::vector<FileDescriptor> descriptors;
};
// Reads once, at most that much; no bytes: the other side has closed. Throws DeadlineExceeded.
WithDescriptors receive_with_descriptors(const FileDescriptor& socket, size_t max_bytes,
                                         size_t max_descriptors, Deadline deadline);

// Waits until a descriptor can be read or is closed, or the deadline. Negative descriptors are
// skipped. Returns for each descriptor whether it is ready.
std::vector<bool> wait_readable(std::span<const int> descriptors, Deadline deadline);

}  // namespace cohort::internal
