#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/connection.h"

namespace cohort::internal {

// Of everything that connections carry. Endpoints of different versions do not connect.
inline constexpr uint32_t kProtocolVersion = 3;

// What each side of a connection says first.
struct Handshake {
  uint32_t protocol = kProtocolVersion;
  Peer peer = {};
  bool shares_memory = false;  // whether the connection may use shared memory
  // Only in an answer: where shared memory is handed over, and the nonce that is expected there.
  std::string memory_socket = {};
  std::string memory_nonce = {};
};

std::string encode(const Handshake& handshake);
// Throws InvalidArgument, which names both sides (`self` is this one), if the bytes are not a
// handshake, or if a text in it is too long or has characters that would spoil a log.
Handshake decode_handshake(std::string_view bytes, std::string_view self);

// Throws FailedPrecondition if the two cannot connect: another protocol, another cluster.
void check_handshake(const Handshake& from, const Handshake& self);

}  // namespace cohort::internal
