#include "rpc/handshake.h"

#include <algorithm>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/rpc.pb.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxHandshakeBytes = 4096;
constexpr size_t kMaxTextBytes = 512;

}  // namespace

std::string encode(const Handshake& handshake) {
  const Peer& peer = handshake.peer;
  proto::Handshake out;
  out.set_protocol(handshake.protocol);
  out.set_name(peer.name);
  out.set_incarnation(peer.incarnation);
  out.set_address(peer.address);
  out.set_cluster(peer.cluster);
  out.set_host(peer.host);
  out.set_memory_socket(handshake.memory_socket);
  out.set_memory_nonce(handshake.memory_nonce);
  out.set_shares_memory(handshake.shares_memory);
  out.set_build(peer.build);
  out.set_generation(peer.generation);
  out.set_settings(peer.settings);
  return out.SerializeAsString();
}

Handshake decode_handshake(std::string_view bytes, std::string_view self) {
  proto::Handshake in;
  if (bytes.size() > kMaxHandshakeBytes ||
      !in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(
        Code::InvalidArgument,
        "[Handshake] {} expects a handshake of at most {} bytes, and the {} bytes that it got are "
        "not a handshake; the other side is another program, or of another release of the library",
        self, kMaxHandshakeBytes, bytes.size());
  }
  const auto checked_text = [&](const std::string& text, std::string_view what) {
    const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
    if (text.size() > kMaxTextBytes || !std::all_of(text.begin(), text.end(), is_printable)) {
      raise(Code::InvalidArgument,
            "[Handshake] '{}' connects with {}, and the {} is not a printable text of at most {} "
            "characters, but '{}' of {} characters; run the same release of the library on both",
            excerpt(in.name()), self, what, kMaxTextBytes, excerpt(text), text.size());
    }
    return text;
  };
  return {.protocol = in.protocol(),
          .peer = {.name = checked_text(in.name(), "name"),
                   .incarnation = in.incarnation(),
                   .address = checked_text(in.address(), "address"),
                   .cluster = in.cluster(),
                   .host = checked_text(in.host(), "host"),
                   .build = checked_text(in.build(), "build"),
                   .generation = in.generation(),
                   .settings = in.settings()},
          .shares_memory = in.shares_memory(),
          .memory_socket = checked_text(in.memory_socket(), "socket"),
          .memory_nonce = in.memory_nonce()};
}

void check_handshake(const Handshake& from, const Handshake& self) {
  if (from.protocol != self.protocol) {
    raise(Code::FailedPrecondition,
          "[Connect] {} speaks version {} of the protocol (build {}), {} version {} (build {}); "
          "run the same release of the library on both",
          from.peer.name, from.protocol, from.peer.build, self.peer.name, self.protocol,
          self.peer.build);
  }
  const uint64_t theirs = from.peer.cluster;
  const uint64_t ours = self.peer.cluster;
  if (theirs != 0 && ours != 0 && theirs != ours) {
    raise(Code::FailedPrecondition,
          "[Connect] {} belongs to cluster {:016x}, {} to cluster {:016x}; start both with the "
          "same cluster specification",
          from.peer.name, theirs, self.peer.name, ours);
  }
}

}  // namespace cohort::internal
