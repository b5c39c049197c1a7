#include "rpc/greeting.h"

#include <algorithm>

#include "base/raise.h"
#include "cohort/rpc.pb.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxGreetingBytes = 4096;
constexpr size_t kMaxNameBytes = 512;

std::string checked_text(const std::string& text, std::string_view what) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() > kMaxNameBytes || !std::all_of(text.begin(), text.end(), is_printable)) {
    raise(Code::InvalidArgument, "[Greeting] the {} is no printable text of at most {} characters",
          what, kMaxNameBytes);
  }
  return text;
}

}  // namespace

std::string encode(const Greeting& greeting) {
  proto::Greeting out;
  out.set_protocol(greeting.protocol);
  out.set_name(greeting.peer.name);
  out.set_incarnation(greeting.peer.incarnation);
  out.set_address(greeting.peer.address);
  out.set_cluster(greeting.cluster);
  out.set_host(greeting.host);
  out.set_memory_socket(greeting.memory_socket);
  out.set_memory_nonce(greeting.memory_nonce);
  return out.SerializeAsString();
}

Greeting decode_greeting(std::string_view bytes) {
  proto::Greeting in;
  if (bytes.size() > kMaxGreetingBytes ||
      !in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(Code::InvalidArgument, "[Greeting] {} bytes that are no greeting", bytes.size());
  }
  return {.protocol = in.protocol(),
          .peer = {.name = checked_text(in.name(), "name"),
                   .incarnation = in.incarnation(),
                   .address = checked_text(in.address(), "address"),
                   .cluster = in.cluster()},
          .cluster = in.cluster(),
          .host = checked_text(in.host(), "host"),
          .memory_socket = checked_text(in.memory_socket(), "socket"),
          .memory_nonce = in.memory_nonce()};
}

void check_greeting(const Greeting& from, const Greeting& self) {
  if (from.protocol != self.protocol) {
    raise(Code::FailedPrecondition,
          "[Connect] {} speaks version {} of the protocol, {} version {}; run the same release of "
          "the "
          "library on both",
          from.peer.name, from.protocol, self.peer.name, self.protocol);
  }
  if (from.cluster != 0 && self.cluster != 0 && from.cluster != self.cluster) {
    raise(
        Code::FailedPrecondition,
        "[Connect] {} belongs to cluster {:016x}, {} to cluster {:016x}; start both with the same "
        "cluster specification",
        from.peer.name, from.cluster, self.peer.name, self.cluster);
  }
}

}  // namespace cohort::internal
