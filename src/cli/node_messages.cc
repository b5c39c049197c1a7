#include "cli/node_messages.h"

namespace cohort::cli {
namespace {

constexpr std::string_view kName = "a message between launchers";

NodeMessage read_kind(internal::MessageReader& reader) {
  return static_cast<NodeMessage>(reader.number(static_cast<uint64_t>(NodeMessage::Progress)));
}

}  // namespace

NodeMessage kind_of(const internal::Message& message) {
  internal::MessageReader reader(message, kName);
  return read_kind(reader);
}

internal::MessageReader open_message(const internal::Message& message, NodeMessage kind) {
  internal::MessageReader reader(message, kName);
  if (read_kind(reader) != kind) reader.fail("it is of another kind");
  return reader;
}

}  // namespace cohort::cli
