#include "cluster/protocol.h"

#include "cluster/protocol_fields.h"
#include "transport/status_message.h"

namespace cohort::internal {

std::string_view name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::Answer:
      return "an answer";
    case MessageKind::OpenSession:
      return "a request for a session";
    case MessageKind::ExtendSession:
      return "an extension of a graph";
    case MessageKind::PrepareRun:
      return "a request to prepare a run";
    case MessageKind::RegisterPlan:
      return "a plan";
    case MessageKind::RunStep:
    case MessageKind::RunPlan:
      return "a request to run";
    case MessageKind::StepDone:
    case MessageKind::PlanDone:
      return "the result of a run";
    case MessageKind::StepTensors:
      return "tensors of a step";
    default:
      return "a message between tasks";
  }
}

MessageKind kind_of(const Message& message) {
  MessageReader reader(message, "a message between tasks");
  const uint64_t kind = reader.number(static_cast<uint64_t>(kLastMessageKind));
  if (kind == 0) reader.fail("it is of no kind");
  return static_cast<MessageKind>(kind);
}

Message write_notice(std::string_view text) {
  Draft draft(MessageKind::Notice);
  draft.writer.text(text);
  return std::move(draft.message);
}

std::string read_notice(const Message& message) {
  MessageReader reader = open_message(message);
  std::string text(reader.text());
  reader.expect_end();
  return text;
}

Message write_ping(MessageKind kind, uint64_t number) { return write_request(kind, number); }

uint64_t read_ping(const Message& message) {
  MessageReader reader = open_message(message);
  const uint64_t number = reader.number();
  reader.expect_end();
  return number;
}

Message write(const Answer& from, std::string_view sender) {
  Draft draft(MessageKind::Answer, from.request);
  write_status(from.status, sender, draft.writer);
  write_numbers(from.numbers, draft.writer);
  write_texts(from.texts, draft.writer);
  return std::move(draft.message);
}

Answer read_answer(const Message& message) {
  MessageReader reader = open_message(message);
  Answer read;
  read.request = reader.number();
  read.status = read_status(reader);
  read.numbers = read_numbers(reader);
  read.texts = read_texts(reader);
  reader.expect_end();
  return read;
}

}  // namespace cohort::internal
