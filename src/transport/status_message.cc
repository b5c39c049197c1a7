#include "transport/status_message.h"

#include <vector>

namespace cohort::internal {
namespace {

constexpr std::string_view kCut = "... (cut)";
constexpr size_t kMaxOrigin = 256;
constexpr uint64_t kLastCode = static_cast<uint64_t>(Code::Unauthenticated);

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

Status read_one(MessageReader& reader) {
  Status status;
  status.code = static_cast<Code>(reader.number(kLastCode));
  status.derived = reader.number(1) == 1;
  status.message = reader.text();
  if (status.message.size() > kMaxStatusText) reader.fail("the text of a status is too long");
  status.origin = reader.text();
  if (status.origin.size() > kMaxOrigin) reader.fail("the origin of a status is too long");
  return status;
}

}  // namespace

void write_status(const Status& status, std::string_view self, MessageWriter& writer) {
  const std::vector<const Status*> chain = chain_of(status);
  writer.number(chain.size());
  for (const Status* link : chain) {
    writer.number(static_cast<uint64_t>(link->code)).number(link->derived ? 1 : 0);
    writer.text(shortened(link->message, kMaxStatusText));
    writer.text(shortened(link->origin.empty() ? self : link->origin, kMaxOrigin));
  }
}

Status read_status(MessageReader& reader) {
  std::vector<Status> chain(reader.number(kMaxStatusCauses));
  if (chain.empty()) reader.fail("a status is missing");
  for (Status& link : chain) link = read_one(reader);
  for (size_t i = chain.size() - 1; i > 0; --i) {
    chain[i - 1].cause = std::make_shared<const Status>(std::move(chain[i]));
  }
  return std::move(chain.front());
}

}  // namespace cohort::internal
