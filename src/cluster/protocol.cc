#include "cluster/protocol.h"

namespace cohort::internal {
namespace {

constexpr std::pair<MessageKind, std::string_view> kNames[] = {
    {MessageKind::Answer, "an answer"},
    {MessageKind::OpenSession, "a request for a session"},
    {MessageKind::ExtendSession, "an extension of a graph"},
    {MessageKind::PrepareRun, "a request to prepare a run"},
    {MessageKind::RegisterPlan, "a plan"},
    {MessageKind::RunStep, "a request to run"},
    {MessageKind::RunPlan, "a request to run"},
    {MessageKind::StepDone, "the result of a run"},
    {MessageKind::PlanDone, "the result of a run"},
    {MessageKind::StepTensors, "tensors of a step"},
};

// How errors call a message: "the result of a run".
std::string_view name_of(MessageKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "a message between tasks";
}

// In order of the enumeration.
constexpr bool is_request(MessageKind kind) {
  return kind >= MessageKind::OpenSession && kind <= MessageKind::ClearContainers;
}

}  // namespace

MessageKind kind_of(const Message& message) {
  MessageReader reader(message, "a message between tasks");
  const uint64_t kind = reader.number(static_cast<uint64_t>(kLastMessageKind));
  if (kind == 0) reader.fail("it is of no kind");
  return static_cast<MessageKind>(kind);
}

uint64_t request_of(const Message& message) {
  MessageReader reader(message, name_of(kind_of(message)));
  (void)reader.number();  // the kind
  return reader.number();
}

Message numbered(Message request, uint64_t number) {
  Message field;
  MessageWriter(field).number(number);
  constexpr size_t kKindBytes = 1;
  request.header.insert(kKindBytes, field.header);
  return request;
}

MessageReader open_message(const Message& message, MessageKind kind) {
  MessageReader reader(message, name_of(kind));
  if (kind_of(message) != kind) reader.fail("it is of another kind");
  (void)reader.number();  // the kind
  if (is_request(kind)) (void)reader.number();
  return reader;
}

}  // namespace cohort::internal
