#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/task_host.h"
#include "transport/message.h"

namespace cohort::cli {

// What a launcher and the machines that joined its run say to each other. Reading throws DataLoss
// for what is no such message.
enum class NodeMessage : uint8_t {
  Offer,  // machine: here I am
  Hold,   // launcher: choose so many ports and hold them
  Held,   // machine: these
  Start,  // launcher: start a task
  Signal,
  Line,      // machine: a task wrote
  Ended,     // machine: a task ended
  Waits,     // machine: a task waits for long, or not any more
  Where,     // launcher: where are these tasks?
  Place,     // machine: one is there
  Timeline,  // machine: what a task did when
  Clock,     // launcher: how late is it? machine: so late
  Goodbye,   // launcher: the run is over
  Progress,  // machine: so far is the training of a task
};
NodeMessage kind_of(const internal::Message& message);

struct NodeOffer {
  std::string name = {};     // by which the launcher expects it; may be empty
  std::string address = {};  // at which others reach its tasks
};
struct NodeLine {
  size_t task = 0;
  Stream stream = Stream::Output;
  std::string text = {};
};
struct NodeEnding {
  size_t task = 0;
  Ending ending = {};
};
struct NodeWaits {
  size_t task = 0;
  LongWaits waits = {};
};
struct NodePlace {
  size_t task = 0;
  TaskPlace place = {};
};
struct NodeProgress {
  size_t task = 0;
  internal::ProgressNote note = {};
};
struct NodeTimeline {
  size_t task = 0;
  std::string lines = {};
};
struct NodeSignal {
  size_t task = 0;
  int signal = 0;
};

internal::Message write_offer(const NodeOffer& offer);
NodeOffer read_offer(const internal::Message& message);
// Hold has one number, Held and Where a list of them, Goodbye none.
internal::Message write_numbers(NodeMessage kind, const std::vector<int>& numbers);
std::vector<int> read_numbers(const internal::Message& message);
internal::Message write_start(const TaskStart& start);
TaskStart read_start(const internal::Message& message);
internal::Message write_signal(const NodeSignal& signal);
NodeSignal read_signal(const internal::Message& message);
internal::Message write_line(const NodeLine& line);
NodeLine read_line(const internal::Message& message);
internal::Message write_ending(const NodeEnding& ending);
NodeEnding read_ending(const internal::Message& message);
internal::Message write_waits(const NodeWaits& waits);
NodeWaits read_waits(const internal::Message& message);
internal::Message write_place(const NodePlace& place);
NodePlace read_place(const internal::Message& message);
internal::Message write_progress(const NodeProgress& progress);
NodeProgress read_progress(const internal::Message& message);
internal::Message write_timeline(const NodeTimeline& timeline);
NodeTimeline read_timeline(const internal::Message& message);
// Of the steady clock.
internal::Message write_clock(std::chrono::steady_clock::time_point time);
std::chrono::steady_clock::time_point read_clock(const internal::Message& message);

}  // namespace cohort::cli
