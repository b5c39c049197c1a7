#include "cli/node_messages.h"

#include <limits>

#include "transport/message_fields.h"

namespace cohort::cli {
namespace {

using internal::Message;
using internal::MessageReader;
using internal::MessageWriter;

constexpr uint64_t kMaxTasks = 1 << 16;
constexpr uint64_t kMaxInt = std::numeric_limits<int>::max();

Message begun(NodeMessage kind) {
  Message message;
  MessageWriter(message).number(static_cast<uint64_t>(kind));
  return message;
}

// Behind the kind.
MessageReader reader_of(const Message& message) {
  MessageReader reader(message, "a message between launchers");
  reader.number(static_cast<uint64_t>(NodeMessage::Goodbye));
  return reader;
}

size_t read_task(MessageReader& reader) { return reader.number(kMaxTasks); }
int read_int(MessageReader& reader) { return static_cast<int>(reader.number(kMaxInt)); }

void write_texts(MessageWriter& writer, const std::vector<std::string>& texts) {
  writer.number(texts.size());
  for (const std::string& text : texts) writer.text(text);
}
std::vector<std::string> read_texts(MessageReader& reader) {
  std::vector<std::string> texts(reader.count());
  for (std::string& text : texts) text = reader.text();
  return texts;
}

void write_optional(MessageWriter& writer, const std::optional<uint64_t>& value) {
  writer.number(value ? 1 : 0).number(value.value_or(0));
}
std::optional<uint64_t> read_optional(MessageReader& reader) {
  const bool there = reader.number(1) == 1;
  const uint64_t value = reader.number();
  return there ? std::optional(value) : std::nullopt;
}

void write_crash(MessageWriter& writer, const CrashRecord& crash) {
  writer.number(static_cast<uint64_t>(crash.signal)).number(static_cast<uint32_t>(crash.code));
  writer.number(crash.address)
      .number(crash.stack_overflow ? 1 : 0)
      .number(crash.terminated ? 1 : 0);
  writer.text(crash.exception).text(crash.what);
  write_texts(writer, crash.frames);
}
CrashRecord read_crash(MessageReader& reader) {
  CrashRecord crash;
  crash.signal = read_int(reader);
  crash.code = static_cast<int>(reader.number(UINT32_MAX));
  crash.address = reader.number();
  crash.stack_overflow = reader.number(1) == 1;
  crash.terminated = reader.number(1) == 1;
  crash.exception = reader.text();
  crash.what = reader.text();
  crash.frames = read_texts(reader);
  return crash;
}

uint64_t milliseconds(double seconds) { return static_cast<uint64_t>(seconds * 1000); }
double seconds(uint64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

}  // namespace

NodeMessage kind_of(const Message& message) {
  MessageReader reader(message, "a message between launchers");
  return static_cast<NodeMessage>(reader.number(static_cast<uint64_t>(NodeMessage::Goodbye)));
}

Message write_offer(const NodeOffer& offer) {
  Message message = begun(NodeMessage::Offer);
  MessageWriter(message).text(offer.name).text(offer.address);
  return message;
}
NodeOffer read_offer(const Message& message) {
  MessageReader reader = reader_of(message);
  NodeOffer offer;
  offer.name = reader.text();
  offer.address = reader.text();
  reader.expect_end();
  return offer;
}

Message write_numbers(NodeMessage kind, const std::vector<int>& numbers) {
  Message message = begun(kind);
  MessageWriter writer(message);
  writer.number(numbers.size());
  for (const int number : numbers) writer.number(static_cast<uint64_t>(number));
  return message;
}
std::vector<int> read_numbers(const Message& message) {
  MessageReader reader = reader_of(message);
  std::vector<int> numbers(reader.count());
  for (int& number : numbers) number = read_int(reader);
  reader.expect_end();
  return numbers;
}

Message write_start(const TaskStart& start) {
  Message message = begun(NodeMessage::Start);
  MessageWriter writer(message);
  writer.number(start.task).text(start.label).text(start.folder).number(start.trace ? 1 : 0);
  write_texts(writer, start.command);
  writer.number(start.environment.size());
  for (const auto& [name, value] : start.environment) writer.text(name).text(value);
  write_optional(writer, start.memory_limit_bytes);
  return message;
}
TaskStart read_start(const Message& message) {
  MessageReader reader = reader_of(message);
  TaskStart start;
  start.task = read_task(reader);
  start.label = reader.text();
  start.folder = reader.text();
  start.trace = reader.number(1) == 1;
  start.command = read_texts(reader);
  for (size_t left = reader.count(); left > 0; --left) {
    const std::string name(reader.text());
    start.environment[name] = reader.text();
  }
  start.memory_limit_bytes = read_optional(reader);
  reader.expect_end();
  return start;
}

Message write_signal(const NodeSignal& signal) {
  Message message = begun(NodeMessage::Signal);
  MessageWriter(message).number(signal.task).number(static_cast<uint64_t>(signal.signal));
  return message;
}
NodeSignal read_signal(const Message& message) {
  MessageReader reader = reader_of(message);
  const size_t task = read_task(reader);
  const int signal = static_cast<int>(reader.number(64));
  reader.expect_end();
  return {task, signal};
}

Message write_line(const NodeLine& line) {
  Message message = begun(NodeMessage::Line);
  MessageWriter(message)
      .number(line.task)
      .number(line.stream == Stream::Errors ? 1 : 0)
      .text(line.text);
  return message;
}
NodeLine read_line(const Message& message) {
  MessageReader reader = reader_of(message);
  NodeLine line;
  line.task = read_task(reader);
  line.stream = reader.number(1) == 1 ? Stream::Errors : Stream::Output;
  line.text = reader.text();
  reader.expect_end();
  return line;
}

Message write_ending(const NodeEnding& of) {
  const Ending& ending = of.ending;
  Message message = begun(NodeMessage::Ended);
  MessageWriter writer(message);
  writer.number(of.task).number(static_cast<uint64_t>(ending.status)).text(ending.not_started);
  writer.number(milliseconds(ending.seconds)).number(ending.peak_bytes);
  write_optional(writer, ending.memory_limit_bytes);
  writer.number(ending.killed_for_memory ? 1 : 0).number(milliseconds(ending.deadlocked_seconds));
  write_crash(writer, ending.crash);
  write_texts(writer, ending.last_lines);
  return message;
}
NodeEnding read_ending(const Message& message) {
  MessageReader reader = reader_of(message);
  NodeEnding of;
  of.task = read_task(reader);
  Ending& ending = of.ending;
  ending.status = read_int(reader);
  ending.not_started = reader.text();
  ending.seconds = seconds(reader.number());
  ending.peak_bytes = reader.number();
  ending.memory_limit_bytes = read_optional(reader);
  ending.killed_for_memory = reader.number(1) == 1;
  ending.deadlocked_seconds = seconds(reader.number());
  ending.crash = read_crash(reader);
  ending.last_lines = read_texts(reader);
  reader.expect_end();
  return of;
}

Message write_waits(const NodeWaits& of) {
  Message message = begun(NodeMessage::Waits);
  MessageWriter writer(message);
  writer.number(of.task).number(of.waits.size());
  for (const internal::ActivityWait& wait : of.waits) {
    writer.number(wait.kind == internal::WaitKind::Answer ? 1 : 0).text(wait.what);
    write_texts(writer, wait.whom);
    writer.number(milliseconds(wait.seconds));
  }
  return message;
}
NodeWaits read_waits(const Message& message) {
  MessageReader reader = reader_of(message);
  NodeWaits of;
  of.task = read_task(reader);
  of.waits.resize(reader.count());
  for (internal::ActivityWait& wait : of.waits) {
    wait.kind = reader.number(1) == 1 ? internal::WaitKind::Answer : internal::WaitKind::Tensor;
    wait.what = reader.text();
    wait.whom = read_texts(reader);
    wait.seconds = seconds(reader.number());
  }
  reader.expect_end();
  return of;
}

Message write_place(const NodePlace& of) {
  Message message = begun(NodeMessage::Place);
  MessageWriter writer(message);
  writer.number(of.task).text(of.place.doing);
  writer.number(milliseconds(of.place.input_seconds));
  write_texts(writer, of.place.frames);
  return message;
}
NodePlace read_place(const Message& message) {
  MessageReader reader = reader_of(message);
  NodePlace of;
  of.task = read_task(reader);
  of.place.doing = reader.text();
  of.place.input_seconds = seconds(reader.number());
  of.place.frames = read_texts(reader);
  reader.expect_end();
  return of;
}

Message write_timeline(const NodeTimeline& of) {
  Message message = begun(NodeMessage::Timeline);
  MessageWriter(message).number(of.task).text(of.lines);
  return message;
}
NodeTimeline read_timeline(const Message& message) {
  MessageReader reader = reader_of(message);
  NodeTimeline of;
  of.task = read_task(reader);
  of.lines = reader.text();
  reader.expect_end();
  return of;
}

Message write_clock(std::chrono::steady_clock::time_point time) {
  Message message = begun(NodeMessage::Clock);
  const std::chrono::nanoseconds since = time.time_since_epoch();
  MessageWriter(message).number(static_cast<uint64_t>(since.count()));
  return message;
}
std::chrono::steady_clock::time_point read_clock(const Message& message) {
  MessageReader reader = reader_of(message);
  const std::chrono::nanoseconds since(static_cast<int64_t>(reader.number()));
  reader.expect_end();
  return std::chrono::steady_clock::time_point(since);
}

}  // namespace cohort::cli
