#include "transport/message_codec.h"

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr int kBitsPerByte = 7;  // the eighth says that more follow
constexpr unsigned kMore = 0x80;

constexpr std::string_view kCut = "... (cut)";
constexpr size_t kMaxOrigin = 256;

bool continues_a_character(char byte) { return (byte & 0xC0) == 0x80; }

// At most `limit` bytes, never half a character of UTF-8.
std::string shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  size_t keep = limit - kCut.size();
  while (keep > 0 && continues_a_character(text[keep])) --keep;
  return std::string(text.substr(0, keep)).append(kCut);
}

// From the outermost to the root.
std::vector<const Status*> chain_of(const Status& status) {
  std::vector<const Status*> chain;
  for (const Status* link = &status; link != nullptr; link = link->cause.get()) {
    if (chain.size() == kMaxStatusCauses) chain.pop_back();
    chain.push_back(link);
  }
  return chain;
}

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
  // Each part takes a byte or more. So a wrong count ends here, before memory is allocated for it.
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
  raise(Code::DataLoss,
        "[Message] {}: {}; the sender runs another version, or is not a Cohort task", what_,
        problem);
}

void MessageWriter::put(const Status& value) {
  const std::vector<const Status*> chain = chain_of(value);
  number(chain.size());
  for (const Status* link : chain) {
    (*this)(link->code, link->derived, shortened(link->message, kMaxStatusText),
            shortened(link->origin.empty() ? sender_ : link->origin, kMaxOrigin));
  }
}

void MessageReader::take(Status& value) {
  std::vector<Status> chain(number(kMaxStatusCauses));
  if (chain.empty()) fail("a status is missing");
  for (Status& link : chain) {
    (*this)(at_most(link.code, Code::Unauthenticated), link.derived, link.message, link.origin);
    check(link.message.size() <= kMaxStatusText, "the text of a status is too long");
    check(link.origin.size() <= kMaxOrigin, "the origin of a status is too long");
  }
  for (size_t i = chain.size() - 1; i > 0; --i) {
    chain[i - 1].cause = std::make_shared<const Status>(std::move(chain[i]));
  }
  value = std::move(chain.front());
}

}  // namespace cohort::internal
