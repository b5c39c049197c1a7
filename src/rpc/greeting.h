#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/connection.h"

namespace cohort::internal {

// Of everything that connections carry. Parties of different versions do not speak to each other.
inline constexpr uint32_t kProtocolVersion = 1;

// What each side of a connection says first.
struct Greeting {
  uint32_t protocol = kProtocolVersion;
  Peer peer = {};
  uint64_t cluster = 0;   // fingerprint; 0 = knows none, and fits to all
  std::string host = {};  // shared_memory_domain(), or empty: no shared memory, please
  // The answer's alone: where shared memory is handed over, and the word that is asked for there.
  std::string memory_socket = {};
  std::string memory_nonce = {};
};

std::string encode(const Greeting& greeting);
// InvalidArgument when the bytes are no greeting, or a name or an address in it is too long or has
// characters that would spoil a log.
Greeting decode_greeting(std::string_view bytes);

// Throws FailedPrecondition when the two do not fit together: other protocol, other cluster.
void check_greeting(const Greeting& from, const Greeting& self);

}  // namespace cohort::internal
