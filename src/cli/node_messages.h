#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/task_host.h"
#include "transport/message_codec.h"

namespace cohort::cli {

// The messages between a launcher and the machines that joined its run. Each begins with its kind.
// Decoding throws DataLoss for bytes that are not the expected message.
enum class NodeMessage : uint8_t {
  Offer,  // machine: its name and address
  Hold,   // launcher: choose ports and hold them
  Held,   // machine: the ports
  Start,  // launcher: start a task
  Signal,
  Line,      // machine: a task wrote a line
  Ended,     // machine: a task ended
  Waits,     // machine: a task has waited for long, or waits no longer
  Where,     // launcher: asks where a task is
  Place,     // machine: where a task is
  Timeline,  // machine: what a task did when
  Clock,     // launcher: asks for the time; machine: the time
  Goodbye,   // launcher: the run is over
  Progress,  // machine: how far the training of a task is
};

NodeMessage kind_of(const internal::Message& message);
// A reader of the fields after the kind. Throws DataLoss if the message is of another kind.
internal::MessageReader open_message(const internal::Message& message, NodeMessage kind);

using internal::at_most;
using internal::encode;

template <typename T>
T decode(const internal::Message& message) {
  internal::MessageReader reader = open_message(message, T::kKind);
  return internal::decode_rest<T>(reader);
}

inline constexpr size_t kMaxTasks = 1 << 16;
inline constexpr int kMaxPorts = 4096;
inline constexpr int kLastSignal = 64;

struct NodeOffer {
  static constexpr auto kKind = NodeMessage::Offer;
  std::string name = {};     // by which the launcher expects the machine; may be empty
  std::string address = {};  // at which other machines reach its tasks
  static void list_fields(auto& fields, auto& m) { fields(m.name, m.address); }
};
struct NodeHold {
  static constexpr auto kKind = NodeMessage::Hold;
  int ports = 0;  // how many
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.ports, kMaxPorts)); }
};
struct NodeHeld {
  static constexpr auto kKind = NodeMessage::Held;
  std::vector<int> ports = {};
  static void list_fields(auto& fields, auto& m) { fields(m.ports); }
};
struct NodeStart {
  static constexpr auto kKind = NodeMessage::Start;
  TaskStart start = {};
  static void list_fields(auto& fields, auto& m) { fields(m.start); }
};
struct NodeSignal {
  static constexpr auto kKind = NodeMessage::Signal;
  size_t task = 0;
  int signal = 0;
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), at_most(m.signal, kLastSignal));
  }
};
struct NodeLine {
  static constexpr auto kKind = NodeMessage::Line;
  size_t task = 0;
  Stream stream = Stream::Output;
  std::string text = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), at_most(m.stream, Stream::Errors), m.text);
  }
};
struct NodeEnding {
  static constexpr auto kKind = NodeMessage::Ended;
  size_t task = 0;
  Ending ending = {};
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks), m.ending); }
};
struct NodeWaits {
  static constexpr auto kKind = NodeMessage::Waits;
  size_t task = 0;
  LongWaits waits = {};
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks), m.waits); }
};
struct NodeWhere {
  static constexpr auto kKind = NodeMessage::Where;
  size_t task = 0;
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks)); }
};
struct NodePlace {
  static constexpr auto kKind = NodeMessage::Place;
  size_t task = 0;
  TaskPlace place = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), m.place.doing, m.place.input_seconds, m.place.frames);
  }
};
struct NodeTimeline {
  static constexpr auto kKind = NodeMessage::Timeline;
  size_t task = 0;
  std::string lines = {};
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks), m.lines); }
};
struct NodeClock {
  static constexpr auto kKind = NodeMessage::Clock;
  std::chrono::nanoseconds time{};  // of the steady clock
  static void list_fields(auto& fields, auto& m) { fields(m.time); }
};
struct NodeGoodbye {
  static constexpr auto kKind = NodeMessage::Goodbye;
  static void list_fields(auto& /*fields*/, auto& /*m*/) {}
};
struct NodeProgress {
  static constexpr auto kKind = NodeMessage::Progress;
  size_t task = 0;
  internal::ProgressNote note = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), m.note.text, m.note.quiet);
  }
};

void list_fields(auto& fields, internal::MaybeConst<TaskStart> auto& start) {
  fields(at_most(start.task, kMaxTasks), start.label, start.folder, start.trace, start.command,
         start.environment, start.memory_limit_bytes);
}
void list_fields(auto& fields, internal::MaybeConst<CrashRecord> auto& crash) {
  fields(crash.signal, internal::either_sign(crash.code), crash.address, crash.stack_overflow,
         crash.terminated, crash.exception, crash.what, crash.frames);
}
void list_fields(auto& fields, internal::MaybeConst<Ending> auto& ending) {
  fields(ending.status, ending.not_started, ending.seconds, ending.peak_bytes,
         ending.memory_limit_bytes, ending.killed_for_memory, ending.deadlocked_seconds,
         ending.crash, ending.last_lines);
}

}  // namespace cohort::cli

namespace cohort::internal {

void list_fields(auto& fields, MaybeConst<ActivityWait> auto& wait) {
  fields(at_most(wait.kind, WaitKind::Answer), wait.what, wait.whom, wait.seconds);
}

}  // namespace cohort::internal
