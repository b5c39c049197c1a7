#include "transport/message_fields.h"

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr int kBitsPerByte = 7;  // the eighth says that more follow
constexpr unsigned kMore = 0x80;

}  // namespace

MessageWriter& MessageWriter::number(uint64_t value) {
  char bytes[10];
  size_t count = 0;
  for (; value >= kMore; value >>= kBitsPerByte) {
    bytes[count++] = static_cast<char>((value & (kMore - 1)) | kMore);
  }
  bytes[count++] = static_cast<char>(value);
  message_.header.append(bytes, count);
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view value) {
  number(value.size());
  message_.header.append(value);
  return *this;
}

MessageWriter& MessageWriter::payload(Buffer value) {
  message_.payloads.push_back(std::move(value));
  return *this;
}

uint64_t MessageReader::number(uint64_t limit) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += kBitsPerByte) {
    if (rest_.empty()) fail("it ends where a number is expected");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    const uint64_t bits = byte & (kMore - 1);
    if (bits << shift >> shift != bits) break;
    value |= bits << shift;
    if (byte & kMore) continue;
    if (value > limit) fail(fmt::format("{} is more than the {} allowed here", value, limit));
    return value;
  }
  fail("a number does not fit into 64 bits");
}

size_t MessageReader::checked_count(uint64_t count) const {
  if (count > rest_.size()) {
    fail(fmt::format("{} parts are announced and {} bytes follow", count, rest_.size()));
  }
  return count;
}

std::string_view MessageReader::text() {
  const size_t size = count();
  const std::string_view found = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return found;
}

const Buffer& MessageReader::payload() {
  if (payload_ == message_.payloads.size()) {
    fail(fmt::format("it has {} payloads and needs more", payload_));
  }
  return message_.payloads[payload_++];
}

void MessageReader::expect_end() const {
  if (at_end()) return;
  fail(fmt::format("{} bytes and {} payloads are left over", rest_.size(),
                   message_.payloads.size() - payload_));
}

void MessageReader::fail(std::string_view problem) const {
  raise(Code::DataLoss, "[Message] {}: {}; the sender runs another version, or is no task of ours",
        what_, problem);
}

}  // namespace cohort::internal
