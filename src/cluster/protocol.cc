#include "cluster/protocol.h"

#include "base/raise.h"
#include "transport/message_fields.h"
#include "transport/status_message.h"
#include "transport/tensor_message.h"

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;

// Longer than any limit that somebody means.
constexpr uint64_t kLongestLimitMs = uint64_t{1} << 40;

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

// A message of that kind, to be filled.
struct Draft {
  explicit Draft(MessageKind kind) { writer.number(static_cast<uint64_t>(kind)); }
  Draft(MessageKind kind, uint64_t request) : Draft(kind) { writer.number(request); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Message message = {};
  MessageWriter writer{message};
};

// A message whose kind was read already.
MessageReader open(const Message& message) {
  MessageReader reader(message, name_of(kind_of(message)));
  (void)reader.number();
  return reader;
}

MessageReader open_request(const Message& message) {
  MessageReader reader = open(message);
  (void)reader.number();
  return reader;
}

bool read_flag(MessageReader& reader) { return reader.number(1) != 0; }

void write_limit(milliseconds limit, MessageWriter& writer) {
  writer.number(static_cast<uint64_t>(std::max<int64_t>(limit.count(), 0)));
}
milliseconds read_limit(MessageReader& reader) {
  return milliseconds(reader.number(kLongestLimitMs));
}

void write_texts(const std::vector<std::string>& texts, MessageWriter& writer) {
  writer.number(texts.size());
  for (const std::string& text : texts) writer.text(text);
}
std::vector<std::string> read_texts(MessageReader& reader) {
  std::vector<std::string> texts(reader.count());
  for (std::string& text : texts) text = reader.text();
  return texts;
}

void write_numbers(const std::vector<uint64_t>& numbers, MessageWriter& writer) {
  writer.number(numbers.size());
  for (const uint64_t number : numbers) writer.number(number);
}
std::vector<uint64_t> read_numbers(MessageReader& reader) {
  std::vector<uint64_t> numbers(reader.count());
  for (uint64_t& number : numbers) number = reader.number();
  return numbers;
}

void write_options(const SessionOptions& options, MessageWriter& writer) {
  writer.number(options.log_device_placement ? 1 : 0).number(options.allow_soft_placement ? 1 : 0);
  writer.number(options.isolate_session_state ? 1 : 0);
  write_limit(options.timeout, writer);
  write_texts(options.device_filters, writer);
}
SessionOptions read_options(MessageReader& reader) {
  SessionOptions options;
  options.log_device_placement = read_flag(reader);
  options.allow_soft_placement = read_flag(reader);
  options.isolate_session_state = read_flag(reader);
  options.timeout = read_limit(reader);
  options.device_filters = read_texts(reader);
  return options;
}

void write_places(const std::vector<PlanPart::Place>& places, MessageWriter& writer) {
  writer.number(places.size());
  for (const PlanPart::Place& place : places) {
    writer.number(place.position).number(place.node).number(place.output);
  }
}
std::vector<PlanPart::Place> read_places(MessageReader& reader) {
  std::vector<PlanPart::Place> places(reader.count());
  for (PlanPart::Place& place : places) {
    place.position = reader.number();
    place.node = reader.number();
    place.output = reader.number();
  }
  return places;
}

void write_part(const PlanPart& part, MessageWriter& writer) {
  writer.text(part.device).payload(part.graph);
  write_places(part.feeds, writer);
  write_places(part.fetches, writer);
  write_numbers(part.targets, writer);
}
PlanPart read_part(MessageReader& reader) {
  PlanPart part;
  part.device = reader.text();
  part.graph = reader.payload();
  part.feeds = read_places(reader);
  part.fetches = read_places(reader);
  part.targets = read_numbers(reader);
  return part;
}

void write_timings(const std::vector<NodeTiming>& timings, MessageWriter& writer) {
  writer.number(timings.size());
  for (const NodeTiming& timing : timings) {
    writer.text(timing.node).text(timing.op).text(timing.device);
    writer.number(static_cast<uint64_t>(timing.start.count()));
    writer.number(static_cast<uint64_t>(timing.duration.count()));
    writer.number(static_cast<uint64_t>(timing.output_bytes));
  }
}
std::vector<NodeTiming> read_timings(MessageReader& reader) {
  const size_t count = reader.count();
  std::vector<NodeTiming> timings;
  for (size_t i = 0; i < count; ++i) {
    NodeTiming& timing = timings.emplace_back();
    timing.node = reader.text();
    timing.op = reader.text();
    timing.device = reader.text();
    timing.start = std::chrono::nanoseconds(reader.number(INT64_MAX));
    timing.duration = std::chrono::nanoseconds(reader.number(INT64_MAX));
    timing.output_bytes = static_cast<int64_t>(reader.number(INT64_MAX));
  }
  return timings;
}

}  // namespace

MessageKind kind_of(const Message& message) {
  MessageReader reader(message, "a message between tasks");
  const uint64_t kind = reader.number(static_cast<uint64_t>(kLastMessageKind));
  if (kind == 0) reader.fail("it is of no kind");
  return static_cast<MessageKind>(kind);
}

Message write_request(MessageKind kind, uint64_t number) {
  Draft draft(kind, number);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const OpenSession& from) {
  Draft draft(MessageKind::OpenSession, number);
  write_options(from.options, draft.writer);
  draft.writer.text(from.client).payload(from.graph);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const ExtendSession& from) {
  Draft draft(MessageKind::ExtendSession, number);
  draft.writer.number(from.session).number(from.version).payload(from.graph);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const PrepareRun& from) {
  Draft draft(MessageKind::PrepareRun, number);
  draft.writer.number(from.session);
  write_texts(from.feeds, draft.writer);
  write_texts(from.fetches, draft.writer);
  write_limit(from.limit, draft.writer);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const RegisterPlan& from) {
  Draft draft(MessageKind::RegisterPlan, number);
  MessageWriter& writer = draft.writer;
  writer.number(from.session).number(from.isolated ? 1 : 0).number(from.plan);
  writer.number(from.num_edges).number(from.num_feeds).number(from.num_fetches);
  writer.number(from.ordered ? 1 : 0);
  writer.number(from.peers.size());
  for (const auto& peer : from.peers) writer.text(peer.name).number(peer.incarnation);
  writer.number(from.sends.size());
  for (const auto& sent : from.sends) writer.number(sent.edge).number(sent.peer);
  writer.number(from.parts.size());
  for (const PlanPart& part : from.parts) write_part(part, writer);
  write_limit(from.limit, writer);
  return std::move(draft.message);
}

Message write_request(MessageKind kind, uint64_t number, uint64_t session) {
  Draft draft(kind, number);
  draft.writer.number(session);
  return std::move(draft.message);
}

Message write_request(MessageKind kind, uint64_t number, const std::vector<std::string>& texts) {
  Draft draft(kind, number);
  write_texts(texts, draft.writer);
  return std::move(draft.message);
}

uint64_t request_of(const Message& message) { return open(message).number(); }

OpenSession read_open_session(const Message& message) {
  MessageReader reader = open_request(message);
  OpenSession read;
  read.options = read_options(reader);
  read.client = reader.text();
  read.graph = reader.payload();
  reader.expect_end();
  return read;
}

ExtendSession read_extend_session(const Message& message) {
  MessageReader reader = open_request(message);
  ExtendSession read;
  read.session = reader.number();
  read.version = reader.number();
  read.graph = reader.payload();
  reader.expect_end();
  return read;
}

PrepareRun read_prepare_run(const Message& message) {
  MessageReader reader = open_request(message);
  PrepareRun read;
  read.session = reader.number();
  read.feeds = read_texts(reader);
  read.fetches = read_texts(reader);
  read.limit = read_limit(reader);
  reader.expect_end();
  return read;
}

RegisterPlan read_register_plan(const Message& message) {
  MessageReader reader = open_request(message);
  RegisterPlan read;
  read.session = reader.number();
  read.isolated = read_flag(reader);
  read.plan = reader.number();
  read.num_edges = reader.number();
  read.num_feeds = reader.number();
  read.num_fetches = reader.number();
  read.ordered = read_flag(reader);
  read.peers.resize(reader.count());
  for (auto& peer : read.peers) {
    peer.name = reader.text();
    peer.incarnation = reader.number();
  }
  read.sends.resize(reader.count());
  for (auto& sent : read.sends) {
    sent.edge = reader.number();
    sent.peer = reader.number();
  }
  const size_t parts = reader.count();
  for (size_t i = 0; i < parts; ++i) read.parts.push_back(read_part(reader));
  read.limit = read_limit(reader);
  reader.expect_end();
  return read;
}

uint64_t read_session_request(const Message& message) {
  MessageReader reader = open_request(message);
  const uint64_t session = reader.number();
  reader.expect_end();
  return session;
}

std::vector<std::string> read_texts_request(const Message& message) {
  MessageReader reader = open_request(message);
  std::vector<std::string> texts = read_texts(reader);
  reader.expect_end();
  return texts;
}

Message write(const RunStep& from) {
  Draft draft(MessageKind::RunStep);
  draft.writer.number(from.session).number(from.call).number(from.run);
  write_limit(from.limit, draft.writer);
  draft.writer.number(from.trace ? 1 : 0);
  write_tensors(from.feeds, draft.writer);
  return std::move(draft.message);
}

RunStep read_run_step(const Message& message) {
  MessageReader reader = open(message);
  RunStep read;
  read.session = reader.number();
  read.call = reader.number();
  read.run = reader.number();
  read.limit = read_limit(reader);
  read.trace = read_flag(reader);
  read.feeds = read_tensors(reader);
  reader.expect_end();
  return read;
}

Message write(const StepDone& from, std::string_view sender) {
  Draft draft(MessageKind::StepDone);
  draft.writer.number(from.call);
  write_status(from.status, sender, draft.writer);
  write_tensors(from.fetches, draft.writer);
  write_timings(from.timings, draft.writer);
  return std::move(draft.message);
}

StepDone read_step_done(const Message& message) {
  MessageReader reader = open(message);
  StepDone read;
  read.call = reader.number();
  read.status = read_status(reader);
  read.fetches = read_tensors(reader);
  read.timings = read_timings(reader);
  reader.expect_end();
  return read;
}

Message write(const CancelStep& from) {
  Draft draft(MessageKind::CancelStep);
  draft.writer.number(from.session).number(from.call);
  return std::move(draft.message);
}

CancelStep read_cancel_step(const Message& message) {
  MessageReader reader = open(message);
  CancelStep read;
  read.session = reader.number();
  read.call = reader.number();
  reader.expect_end();
  return read;
}

Message write(const RunPlan& from) {
  Draft draft(MessageKind::RunPlan);
  draft.writer.number(from.session).number(from.plan).number(from.step).number(from.number);
  draft.writer.number(from.trace ? 1 : 0);
  write_tensors(from.feeds, draft.writer);
  return std::move(draft.message);
}

RunPlan read_run_plan(const Message& message) {
  MessageReader reader = open(message);
  RunPlan read;
  read.session = reader.number();
  read.plan = reader.number();
  read.step = reader.number();
  read.number = reader.number();
  read.trace = read_flag(reader);
  read.feeds = read_tensors(reader);
  reader.expect_end();
  return read;
}

Message write(const PlanDone& from, std::string_view sender) {
  Draft draft(MessageKind::PlanDone);
  draft.writer.number(from.session).number(from.step);
  write_status(from.status, sender, draft.writer);
  write_tensors(from.fetches, draft.writer);
  write_timings(from.timings, draft.writer);
  return std::move(draft.message);
}

PlanDone read_plan_done(const Message& message) {
  MessageReader reader = open(message);
  PlanDone read;
  read.session = reader.number();
  read.step = reader.number();
  read.status = read_status(reader);
  read.fetches = read_tensors(reader);
  read.timings = read_timings(reader);
  reader.expect_end();
  return read;
}

Message write(const AbortPlan& from, std::string_view sender) {
  Draft draft(MessageKind::AbortPlan);
  draft.writer.number(from.session).number(from.plan).number(from.step);
  write_status(from.status, sender, draft.writer);
  return std::move(draft.message);
}

AbortPlan read_abort_plan(const Message& message) {
  MessageReader reader = open(message);
  AbortPlan read;
  read.session = reader.number();
  read.plan = reader.number();
  read.step = reader.number();
  read.status = read_status(reader);
  reader.expect_end();
  return read;
}

Message write(const StepTensors& from) {
  Draft draft(MessageKind::StepTensors);
  draft.writer.number(from.session).number(from.plan).number(from.step);
  write_numbers(from.edges, draft.writer);
  write_tensors(from.tensors, draft.writer);
  return std::move(draft.message);
}

StepTensors read_step_tensors(const Message& message) {
  MessageReader reader = open(message);
  StepTensors read;
  read.session = reader.number();
  read.plan = reader.number();
  read.step = reader.number();
  read.edges = read_numbers(reader);
  read.tensors = read_tensors(reader);
  if (read.edges.size() != read.tensors.size()) reader.fail("edges and tensors differ in number");
  reader.expect_end();
  return read;
}

Message write_notice(std::string_view text) {
  Draft draft(MessageKind::Notice);
  draft.writer.text(text);
  return std::move(draft.message);
}

std::string read_notice(const Message& message) {
  MessageReader reader = open(message);
  std::string text(reader.text());
  reader.expect_end();
  return text;
}

Message write_ping(MessageKind kind, uint64_t number) { return write_request(kind, number); }

uint64_t read_ping(const Message& message) {
  MessageReader reader = open(message);
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
  MessageReader reader = open(message);
  Answer read;
  read.request = reader.number();
  read.status = read_status(reader);
  read.numbers = read_numbers(reader);
  read.texts = read_texts(reader);
  reader.expect_end();
  return read;
}

}  // namespace cohort::internal
