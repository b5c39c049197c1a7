#include "cluster/protocol.h"

#include "cluster/protocol_fields.h"

namespace cohort::internal {
namespace {

// "the result of a run", for errors.
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

// A message of the kind with these values.
template <typename... Values>
Message written(MessageKind kind, std::string_view sender, const Values&... values) {
  Message message;
  MessageWriter numbers(message);
  FieldWriter writer(numbers, sender);
  writer.put(static_cast<uint64_t>(kind));
  (writer.put(values), ...);
  return message;
}

// Behind the kind, which was read already.
MessageReader opened(const Message& message) {
  MessageReader reader(message, name_of(kind_of(message)));
  (void)reader.number();
  return reader;
}

template <typename T>
T read_rest(MessageReader reader) {
  T read{};
  FieldReader(reader).take(read);
  reader.expect_end();
  return read;
}

template <typename T>
T read(const Message& message) {
  return read_rest<T>(opened(message));
}

// Behind the number of the request.
template <typename T>
T read_asked(const Message& message) {
  MessageReader reader = opened(message);
  (void)reader.number();
  return read_rest<T>(reader);
}

}  // namespace

MessageKind kind_of(const Message& message) {
  MessageReader reader(message, "a message between tasks");
  const uint64_t kind = reader.number(static_cast<uint64_t>(kLastMessageKind));
  if (kind == 0) reader.fail("it is of no kind");
  return static_cast<MessageKind>(kind);
}

Message write_request(MessageKind kind, uint64_t request) { return written(kind, "", request); }
Message write_request(uint64_t request, const OpenSession& from) {
  return written(MessageKind::OpenSession, "", request, from);
}
Message write_request(uint64_t request, const ExtendSession& from) {
  return written(MessageKind::ExtendSession, "", request, from);
}
Message write_request(uint64_t request, const PrepareRun& from) {
  return written(MessageKind::PrepareRun, "", request, from);
}
Message write_request(uint64_t request, const RegisterPlan& from) {
  return written(MessageKind::RegisterPlan, "", request, from);
}
Message write_request(MessageKind kind, uint64_t request, uint64_t session) {
  return written(kind, "", request, session);
}
Message write_request(MessageKind kind, uint64_t request, const std::vector<std::string>& texts) {
  return written(kind, "", request, texts);
}

uint64_t request_of(const Message& message) { return opened(message).number(); }
OpenSession read_open_session(const Message& message) { return read_asked<OpenSession>(message); }
ExtendSession read_extend_session(const Message& message) {
  return read_asked<ExtendSession>(message);
}
PrepareRun read_prepare_run(const Message& message) { return read_asked<PrepareRun>(message); }
RegisterPlan read_register_plan(const Message& message) {
  return read_asked<RegisterPlan>(message);
}
uint64_t read_session_request(const Message& message) { return read_asked<uint64_t>(message); }
std::vector<std::string> read_texts_request(const Message& message) {
  return read_asked<std::vector<std::string>>(message);
}

Message write(const RunStep& from) { return written(MessageKind::RunStep, "", from); }
Message write(const StepDone& from, std::string_view sender) {
  return written(MessageKind::StepDone, sender, from);
}
Message write(MessageKind kind, const Release& from) { return written(kind, "", from); }
Message write(const CancelStep& from) { return written(MessageKind::CancelStep, "", from); }
Message write(const RunPlan& from) { return written(MessageKind::RunPlan, "", from); }
Message write(const PlanDone& from, std::string_view sender) {
  return written(MessageKind::PlanDone, sender, from);
}
Message write(const AbortPlan& from, std::string_view sender) {
  return written(MessageKind::AbortPlan, sender, from);
}
Message write(const StepTensors& from) { return written(MessageKind::StepTensors, "", from); }
Message write(const Answer& from, std::string_view sender) {
  return written(MessageKind::Answer, sender, from);
}
Message write_notice(std::string_view text) { return written(MessageKind::Notice, "", text); }
Message write_ping(MessageKind kind, uint64_t number) { return written(kind, "", number); }

RunStep read_run_step(const Message& message) { return read<RunStep>(message); }
StepDone read_step_done(const Message& message) { return read<StepDone>(message); }
Release read_release(const Message& message) { return read<Release>(message); }
CancelStep read_cancel_step(const Message& message) { return read<CancelStep>(message); }
RunPlan read_run_plan(const Message& message) { return read<RunPlan>(message); }
PlanDone read_plan_done(const Message& message) { return read<PlanDone>(message); }
AbortPlan read_abort_plan(const Message& message) { return read<AbortPlan>(message); }
StepTensors read_step_tensors(const Message& message) { return read<StepTensors>(message); }
Answer read_answer(const Message& message) { return read<Answer>(message); }
std::string read_notice(const Message& message) { return read<std::string>(message); }
uint64_t read_ping(const Message& message) { return read<uint64_t>(message); }

}  // namespace cohort::internal
