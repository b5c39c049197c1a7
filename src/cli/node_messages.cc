#include "cli/node_messages.h"

#include "transport/two_way_fields.h"

namespace cohort::cli {
namespace {

using internal::EitherWay;
using internal::FieldsIn;
using internal::FieldsOut;
using internal::Message;
using internal::MessageReader;

constexpr uint64_t kMaxTasks = 1 << 16;
constexpr std::string_view kNodeMessage = "a message between launchers";
constexpr uint64_t kLastNodeMessage = static_cast<uint64_t>(NodeMessage::Progress);

// What each message, and what is inside of it, consists of: for writing and reading.

void list_fields(auto& fields, EitherWay<NodeOffer> auto& offer) {
  fields.text(offer.name);
  fields.text(offer.address);
}

void list_fields(auto& fields, EitherWay<std::vector<int>> auto& numbers) {
  fields.values(numbers, [&](auto& number) { fields.natural(number); });
}

void list_fields(auto& fields, EitherWay<TaskStart> auto& start) {
  fields.number(start.task, kMaxTasks);
  fields.text(start.label);
  fields.text(start.folder);
  fields.flag(start.trace);
  fields.texts(start.command);
  fields.texts(start.environment);
  fields.optional(start.memory_limit_bytes);
}

void list_fields(auto& fields, EitherWay<NodeSignal> auto& signal) {
  constexpr int kLastSignal = 64;
  fields.number(signal.task, kMaxTasks);
  fields.natural(signal.signal, kLastSignal);
}

void list_fields(auto& fields, EitherWay<NodeLine> auto& line) {
  fields.number(line.task, kMaxTasks);
  fields.choice(line.stream, Stream::Output, Stream::Errors);
  fields.text(line.text);
}

void list_fields(auto& fields, EitherWay<CrashRecord> auto& crash) {
  fields.natural(crash.signal);
  fields.integer(crash.code);
  fields.number(crash.address);
  fields.flag(crash.stack_overflow);
  fields.flag(crash.terminated);
  fields.text(crash.exception);
  fields.text(crash.what);
  fields.texts(crash.frames);
}

void list_fields(auto& fields, EitherWay<NodeEnding> auto& of) {
  auto& ending = of.ending;
  fields.number(of.task, kMaxTasks);
  fields.natural(ending.status);
  fields.text(ending.not_started);
  fields.seconds(ending.seconds);
  fields.number(ending.peak_bytes);
  fields.optional(ending.memory_limit_bytes);
  fields.flag(ending.killed_for_memory);
  fields.seconds(ending.deadlocked_seconds);
  list_fields(fields, ending.crash);
  fields.texts(ending.last_lines);
}

void list_fields(auto& fields, EitherWay<NodeWaits> auto& of) {
  using internal::WaitKind;
  fields.number(of.task, kMaxTasks);
  fields.values(of.waits, [&](auto& wait) {
    fields.choice(wait.kind, WaitKind::Tensor, WaitKind::Answer);
    fields.text(wait.what);
    fields.texts(wait.whom);
    fields.seconds(wait.seconds);
  });
}

void list_fields(auto& fields, EitherWay<NodePlace> auto& of) {
  fields.number(of.task, kMaxTasks);
  fields.text(of.place.doing);
  fields.seconds(of.place.input_seconds);
  fields.texts(of.place.frames);
}

void list_fields(auto& fields, EitherWay<NodeProgress> auto& of) {
  fields.number(of.task, kMaxTasks);
  fields.text(of.note.text);
  fields.flag(of.note.quiet);
}

void list_fields(auto& fields, EitherWay<NodeTimeline> auto& of) {
  fields.number(of.task, kMaxTasks);
  fields.text(of.lines);
}

void list_fields(auto& fields, EitherWay<std::chrono::nanoseconds> auto& time) {
  fields.time(time);
}

template <typename T>
Message written(NodeMessage kind, const T& value) {
  Message message;
  FieldsOut fields(message);
  fields.number(static_cast<uint64_t>(kind));
  list_fields(fields, value);
  return message;
}

template <typename T>
T read_as(const Message& message) {
  MessageReader reader(message, kNodeMessage);
  reader.number(kLastNodeMessage);
  T value{};
  FieldsIn fields(reader);
  list_fields(fields, value);
  reader.expect_end();
  return value;
}

}  // namespace

NodeMessage kind_of(const Message& message) {
  return static_cast<NodeMessage>(MessageReader(message, kNodeMessage).number(kLastNodeMessage));
}

Message write_offer(const NodeOffer& offer) { return written(NodeMessage::Offer, offer); }
NodeOffer read_offer(const Message& message) { return read_as<NodeOffer>(message); }

Message write_numbers(NodeMessage kind, const std::vector<int>& numbers) {
  return written(kind, numbers);
}
std::vector<int> read_numbers(const Message& message) { return read_as<std::vector<int>>(message); }

Message write_start(const TaskStart& start) { return written(NodeMessage::Start, start); }
TaskStart read_start(const Message& message) { return read_as<TaskStart>(message); }

Message write_signal(const NodeSignal& signal) { return written(NodeMessage::Signal, signal); }
NodeSignal read_signal(const Message& message) { return read_as<NodeSignal>(message); }

Message write_line(const NodeLine& line) { return written(NodeMessage::Line, line); }
NodeLine read_line(const Message& message) { return read_as<NodeLine>(message); }

Message write_ending(const NodeEnding& ending) { return written(NodeMessage::Ended, ending); }
NodeEnding read_ending(const Message& message) { return read_as<NodeEnding>(message); }

Message write_waits(const NodeWaits& waits) { return written(NodeMessage::Waits, waits); }
NodeWaits read_waits(const Message& message) { return read_as<NodeWaits>(message); }

Message write_place(const NodePlace& place) { return written(NodeMessage::Place, place); }
NodePlace read_place(const Message& message) { return read_as<NodePlace>(message); }

Message write_progress(const NodeProgress& progress) {
  return written(NodeMessage::Progress, progress);
}
NodeProgress read_progress(const Message& message) { return read_as<NodeProgress>(message); }

Message write_timeline(const NodeTimeline& timeline) {
  return written(NodeMessage::Timeline, timeline);
}
NodeTimeline read_timeline(const Message& message) { return read_as<NodeTimeline>(message); }

Message write_clock(std::chrono::steady_clock::time_point time) {
  const std::chrono::nanoseconds since = time.time_since_epoch();
  return written(NodeMessage::Clock, since);
}
std::chrono::steady_clock::time_point read_clock(const Message& message) {
  return std::chrono::steady_clock::time_point(read_as<std::chrono::nanoseconds>(message));
}

}  // namespace cohort::cli
