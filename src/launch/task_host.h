#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/activity.h"
#include "launch/process_state.h"
#include "launch/run_layout.h"
#include "launch/task_ending.h"
#include "launch/task_output.h"
#include "transport/message_codec.h"

namespace cohort::cli {

// A task as its machine must know it.
struct TaskStart {
  size_t task = 0;  // its number in the run
  TaskId id = {};
  std::vector<std::string> command = {};
  Environment environment = {};
  std::string directory = {};
  std::string input = {};  // see ChildStart; is not sent to other machines
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;
  bool trace = false;  // whether the task writes its timeline
};

using LongWaits = std::vector<internal::ActivityWait>;

// What a machine reports about its tasks. Called by the thread that polls.
struct TaskEvents {
  std::function<void(size_t task, Stream stream, std::string_view line)> line;
  std::function<void(size_t task, const Ending& ending)> ended;
  // Called while the task has long waits, and once more, without waits, when they are over.
  std::function<void(size_t task, const LongWaits& waits)> waits = {};
  std::function<void(size_t task, const TaskPlace& place)> place = {};
  // Called when the progress of the training has changed.
  std::function<void(size_t task, const internal::ProgressNote& note)> progress = {};
  // Lines of the timeline of a task that writes one. Called before `ended`.
  std::function<void(size_t task, std::string_view lines)> timeline = {};
  // The machine was asked to end by the signal, while tasks run there.
  std::function<void(const std::string& machine, int signal)> interrupted = {};
};

// A machine on which tasks run: this machine, or a machine that joined the run.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  // A program that cannot be started is reported as an ending.
  virtual void start(const TaskStart& start) = 0;
  // Signals the process group of the task, unless the task has ended.
  virtual void signal(size_t task, int signal) = 0;
  // Asks where the task is. The answer is an event; a task that has ended does not answer.
  virtual void ask_place(size_t task) = 0;
  // How much its steady clock is ahead of that of this machine.
  virtual std::chrono::nanoseconds clock_ahead() const { return {}; }
};

// The messages between a launcher and the machines that joined its run. Each begins with its kind.
// Decoding throws DataLoss for bytes that are not the expected message.
enum class MachineMessage : uint8_t {
  Offer,  // machine: its name and address
  Hold,   // launcher: choose ports and hold them
  Held,   // machine: the ports
  Start,  // launcher: start a task
  Signal,
  Line,         // machine: a task wrote a line
  Ended,        // machine: a task ended
  Waits,        // machine: a task has waited for long, or waits no longer
  Where,        // launcher: asks where a task is
  Place,        // machine: where a task is
  Timeline,     // machine: what a task did when
  Clock,        // launcher: asks for the time; machine: the time
  Goodbye,      // launcher: the run is over
  Progress,     // machine: how far the training of a task is
  Interrupted,  // machine: it was asked to end
};

inline constexpr size_t kMaxTasks = 1 << 16;
inline constexpr int kMaxPorts = 4096;
inline constexpr int kMaxSignal = 64;

using internal::at_most;
using internal::encode;

inline internal::MessageReader open_message(const internal::Message& message) {
  return internal::MessageReader(message, "a message between launchers");
}
inline MachineMessage read_kind(internal::MessageReader& reader) {
  return static_cast<MachineMessage>(
      reader.number(static_cast<uint64_t>(MachineMessage::Interrupted)));
}
inline MachineMessage kind_of(const internal::Message& message) {
  internal::MessageReader reader = open_message(message);
  return read_kind(reader);
}

template <typename T>
T decode(const internal::Message& message) {
  internal::MessageReader reader = open_message(message);
  if (read_kind(reader) != T::kKind) reader.fail("it is of another kind");
  return internal::decode_rest<T>(reader);
}

struct MachineOffer {
  static constexpr auto kKind = MachineMessage::Offer;
  std::string name = {};     // by which the launcher expects the machine; may be empty
  std::string address = {};  // at which other machines reach its tasks
  static void list_fields(auto& fields, auto& m) { fields(m.name, m.address); }
};
struct MachineHold {
  static constexpr auto kKind = MachineMessage::Hold;
  int ports = 0;  // how many
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.ports, kMaxPorts)); }
};
struct MachineHeld {
  static constexpr auto kKind = MachineMessage::Held;
  std::vector<int> ports = {};
  static void list_fields(auto& fields, auto& m) { fields(m.ports); }
};
struct MachineStart {
  static constexpr auto kKind = MachineMessage::Start;
  TaskStart start = {};
  static void list_fields(auto& fields, auto& m) { fields(m.start); }
};
struct MachineSignal {
  static constexpr auto kKind = MachineMessage::Signal;
  size_t task = 0;
  int signal = 0;
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), at_most(m.signal, kMaxSignal));
  }
};
struct MachineLine {
  static constexpr auto kKind = MachineMessage::Line;
  size_t task = 0;
  Stream stream = Stream::Output;
  std::string text = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.task, kMaxTasks), at_most(m.stream, Stream::Errors), m.text);
  }
};
struct MachineWhere {
  static constexpr auto kKind = MachineMessage::Where;
  size_t task = 0;
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks)); }
};
struct MachineClock {
  static constexpr auto kKind = MachineMessage::Clock;
  std::chrono::nanoseconds time{};  // of the steady clock
  static void list_fields(auto& fields, auto& m) { fields(m.time); }
};
struct MachineInterrupted {
  static constexpr auto kKind = MachineMessage::Interrupted;
  int signal = 0;
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.signal, kMaxSignal)); }
};
struct MachineGoodbye {
  static constexpr auto kKind = MachineMessage::Goodbye;
  static void list_fields(auto& /*fields*/, auto& /*m*/) {}
};

// The messages by which a machine passes an event of a task on (TaskEvents).
template <MachineMessage Kind, typename Value>
struct MachineEvent {
  static constexpr auto kKind = Kind;
  size_t task = 0;
  Value value = {};
  static void list_fields(auto& fields, auto& m) { fields(at_most(m.task, kMaxTasks), m.value); }
};
using MachineEnding = MachineEvent<MachineMessage::Ended, Ending>;
using MachineWaits = MachineEvent<MachineMessage::Waits, LongWaits>;
using MachinePlace = MachineEvent<MachineMessage::Place, TaskPlace>;
using MachineTimeline = MachineEvent<MachineMessage::Timeline, std::string>;
using MachineProgress = MachineEvent<MachineMessage::Progress, internal::ProgressNote>;

void list_fields(auto& fields, internal::MaybeConst<TaskId> auto& id) { fields(id.job, id.index); }
void list_fields(auto& fields, internal::MaybeConst<TaskStart> auto& start) {
  fields(at_most(start.task, kMaxTasks), start.id, start.directory, start.trace, start.command,
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
void list_fields(auto& fields, internal::MaybeConst<TaskPlace> auto& place) {
  fields(place.doing, place.input_seconds, place.frames);
}

}  // namespace cohort::cli

namespace cohort::internal {

void list_fields(auto& fields, MaybeConst<ActivityWait> auto& wait) {
  fields(at_most(wait.kind, WaitKind::Answer), wait.what, wait.whom, wait.seconds);
}
void list_fields(auto& fields, MaybeConst<ProgressNote> auto& note) {
  fields(note.text, note.quiet, note.printed);
}

}  // namespace cohort::internal
