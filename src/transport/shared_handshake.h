#pragma once

#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "transport/peer_signals.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// How two processes get at one memory, over a Unix socket: who connects says a nonce, who listens
// answers with the memory and the sockets of the bells, of which that socket becomes one.

struct SharedParts {
  std::shared_ptr<SharedMapping> mapping = {};
  std::shared_ptr<PeerSignals> bells = {};
};

// What the connecting side says first: always this long.
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kGreetingBytes = 16 + kNonceBytes;
std::string greeting_with(const std::string& nonce);
// Empty when it is no greeting.
std::string nonce_in(const std::string& greeting);

// The listening side's answer. Throws Unavailable, ResourceExhausted.
SharedParts offer_memory(FileDescriptor socket, size_t arena_bytes);
// The connecting side, after its greeting. Throws as connect_shared_memory.
SharedParts take_memory(FileDescriptor socket, Deadline deadline);

}  // namespace cohort::internal
