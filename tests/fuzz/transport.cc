// One fuzz target per thing that another task may send or write; the variable COHORT_FUZZ_TARGET
// chooses. Whatever the bytes are, a reader returns or throws an Error that is not Internal.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "transport/message_codec.h"
#include "transport/shared_connection.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

// The first byte says how many payloads of 100 bytes come after the header.
Message message_of(std::string_view text) {
  Message message;
  size_t payloads = text.empty() ? 0 : static_cast<unsigned char>(text[0]) % 8;
  if (!text.empty()) text.remove_prefix(1);
  constexpr size_t kSize = 100;
  for (; payloads > 0 && text.size() >= kSize; --payloads) {
    const auto bytes = std::make_shared<std::string>(text.substr(text.size() - kSize));
    text.remove_suffix(kSize);
    message.payloads.push_back({std::as_bytes(std::span(std::as_const(*bytes))), bytes});
  }
  message.header = text;
  return message;
}

void fuzz_tensor_message(std::string_view text) {
  const Message message = message_of(text);
  MessageReader reader(message, "tensors");
  const auto tensors = decode_next<std::vector<Tensor>>(reader);
  Message again;
  MessageWriter{again}(tensors);
}

void fuzz_status_message(std::string_view text) {
  const Message message{std::string(text)};
  MessageReader reader(message, "a status");
  const auto status = decode_next<Status>(reader);
  Message again;
  MessageWriter(again, "self")(status);
}

// The bytes are what the other process writes: eight words for the control words, then the ring;
// the same bytes are at the start of the arena. Then this side reads, sends and asks why it ended.
void fuzz_shared_memory(std::string_view text) {
  const auto mapping = std::make_shared<SharedMapping>(size_t{64} << 10);
  auto sockets = [] { return unix_pair().first; };  // the other end is gone
  const auto signals = std::make_shared<PeerSignals>(
      std::array<FileDescriptor, PeerSignals::kCount>{sockets(), sockets(), sockets()});
  SharedDirection& in = mapping->direction(1);
  SharedDirection& out = mapping->direction(0);
  std::array<uint64_t, 8> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof(words)));
  text.remove_prefix(std::min(text.size(), sizeof(words)));
  std::memcpy(in.ring, text.data(), std::min(text.size(), sizeof(in.ring)));
  std::memcpy(in.close_status, text.data(), std::min(text.size(), sizeof(in.close_status)));
  std::memcpy(mapping->arena(1).data(), text.data(),
              std::min(text.size(), mapping->arena(1).size()));
  in.tail.store(words[0]);
  in.close_status_size.store(static_cast<uint32_t>(words[1]));
  in.closed.store(static_cast<uint32_t>(words[2]));
  out.head.store(words[3]);
  out.returned.store(words[4]);
  out.returns[0].store(static_cast<uint32_t>(words[5]));
  out.foreground.store(static_cast<uint32_t>(words[6]));
  out.background.store(static_cast<uint32_t>(words[7]));

  const auto side = std::make_shared<SharedSide>(SharedParts{mapping, signals}, 0,
                                                 Peer{.name = "a"}, Peer{.name = "b"});
  SharedInbox inbox(side);
  for (int i = 0; i < 100 && inbox.take(); ++i) {
  }
  (void)inbox.ended();
  const std::string large(10000, 'x');
  (void)capture_status([&] {  // throws what the other side said, which may be anything
    side->outbox.send({"x", {{std::as_bytes(std::span(large)), {}}}}, WhenFull::Grow);
  });
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"shared_memory", fuzz_shared_memory},
    {"status_message", fuzz_status_message},
    {"tensor_message", fuzz_tensor_message}};

}  // namespace
}  // namespace cohort::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return cohort::try_text(cohort::internal::kTargets, data, size);
}
