#pragma once

#include <string>

namespace cohort::bench {

// What one of those takes that a task writes down in a step, in nanoseconds.
struct NoteCosts {
  double input;    // begin and end of getting an element
  double meeting;  // with other tasks
  double step;
  double span;  // of the timeline
};
NoteCosts note_costs();

// How many of them a step has, by the file that `cohort run --trace` wrote.
struct NotesPerStep {
  double inputs;
  double meetings;
  double spans;  // all of it, and the step
};
NotesPerStep notes_per_step(const std::string& trace_file);

}  // namespace cohort::bench
