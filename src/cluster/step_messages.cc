#include "cluster/protocol_fields.h"
#include "transport/status_message.h"
#include "transport/tensor_message.h"

namespace cohort::internal {
namespace {

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

void write_step_tensors(const StepTensors& from, MessageWriter& writer) {
  writer.number(from.session).number(from.plan).number(from.step);
  write_numbers(from.edges, writer);
  write_tensors(from.tensors, writer);
}
StepTensors read_step_tensors(MessageReader& reader) {
  StepTensors read;
  read.session = reader.number();
  read.plan = reader.number();
  read.step = reader.number();
  read.edges = read_numbers(reader);
  read.tensors = read_tensors(reader);
  if (read.edges.size() != read.tensors.size()) reader.fail("edges and tensors differ in number");
  return read;
}

}  // namespace

Message write(const RunStep& from) {
  Draft draft(MessageKind::RunStep);
  draft.writer.number(from.session).number(from.call).number(from.run);
  write_limit(from.limit, draft.writer);
  draft.writer.number(from.trace ? 1 : 0);
  write_tensors(from.feeds, draft.writer);
  return std::move(draft.message);
}

RunStep read_run_step(const Message& message) {
  MessageReader reader = open_message(message);
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
  MessageReader reader = open_message(message);
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
  MessageReader reader = open_message(message);
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
  MessageReader reader = open_message(message);
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
  write_step_tensors(from.last_tensors, draft.writer);
  return std::move(draft.message);
}

PlanDone read_plan_done(const Message& message) {
  MessageReader reader = open_message(message);
  PlanDone read;
  read.session = reader.number();
  read.step = reader.number();
  read.status = read_status(reader);
  read.fetches = read_tensors(reader);
  read.timings = read_timings(reader);
  read.last_tensors = read_step_tensors(reader);
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
  MessageReader reader = open_message(message);
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
  write_step_tensors(from, draft.writer);
  return std::move(draft.message);
}

StepTensors read_step_tensors(const Message& message) {
  MessageReader reader = open_message(message);
  StepTensors read = read_step_tensors(reader);
  reader.expect_end();
  return read;
}

}  // namespace cohort::internal
