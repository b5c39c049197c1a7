// One fuzz target per kind of bytes that come over the network; the variable COHORT_FUZZ_TARGET
// chooses. Whatever the bytes are, they are taken or refused with an Error that is not Internal.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "cohort/error.h"
#include "rpc/certificates.h"
#include "rpc/handshake.h"
#include "rpc/message_chunks.h"
#include "rpc/task_status.h"

namespace cohort::internal {
namespace {

void fuzz_handshake(std::string_view bytes) {
  const Handshake handshake = decode_handshake(bytes, "self");
  const Handshake again = decode_handshake(encode(handshake), "self");
  if (again.peer.name != handshake.peer.name || again.peer.settings != handshake.peer.settings)
    std::abort();
  check_handshake(handshake, {.peer = {.cluster = 1}});
}

// Each chunk is a length byte, and that many times 16 bytes.
void fuzz_chunks(std::string_view bytes) {
  MessageAssembler assembler;
  while (!bytes.empty()) {
    const size_t length = std::min<size_t>(static_cast<uint8_t>(bytes[0]) * 16, bytes.size() - 1);
    const auto chunk = std::as_bytes(std::span(bytes.substr(1, length)));
    const auto arrived = assembler.add({&chunk, 1});
    if (arrived.message) {
      for (const Buffer& payload : arrived.message->payloads) {
        if (reinterpret_cast<uintptr_t>(payload.bytes.data()) % 64 != 0) std::abort();
      }
    }
    bytes.remove_prefix(1 + length);
  }
}

// As everything that is PEM.
void fuzz_certificate(std::string_view bytes) {
  const std::string text(bytes);
  check_credentials({.certificate = text, .private_key = text, .authority = text},
                    "/job:ps/replica:0/task:0");
}

void fuzz_status_reply(std::string_view bytes) { (void)decode_status(bytes, "input"); }

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"certificate", fuzz_certificate},
    {"chunks", fuzz_chunks},
    {"handshake", fuzz_handshake},
    {"status_reply", fuzz_status_reply},
};

}  // namespace
}  // namespace cohort::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto target = cohort::chosen_target(cohort::internal::kTargets);
  const cohort::Status status = cohort::capture_status([&] {
    target({reinterpret_cast<const char*>(data), size});
  });
  if (status.code == cohort::Code::Internal || status.code == cohort::Code::Unknown) std::abort();
  return 0;
}
