// What being traced and being watched adds to the steps of an MLP on two workers.

#include <unistd.h>

#include "launch/figures.h"
#include "launch/note_costs.h"
#include "launch/parts.h"
#include "launch/processor_time.h"
#include "launch/training_run.h"

namespace cohort::bench {
namespace {

const std::vector<std::string> kWorkers{"-n", "2"};

std::vector<std::string> tracing_to(const std::string& file) {
  return {"-n", "2", "--trace", file};
}

void print_computed(double count, double nanoseconds, double step_seconds, double limit) {
  print_figure("  computed: what a step writes down, of a step",
               nanoseconds * 1e-9 / step_seconds * 100, "%", limit);
  std::printf("    %.1f entries, %.0f ns together, in a step of %.2f ms\n", count, nanoseconds,
              step_seconds * 1e3);
}

NotesPerStep counted_notes() {
  const TemporaryDirectory directory;
  TrainingRun run(tracing_to(directory.path() + "/trace.json"));
  run.seconds_of(100);
  run.end();
  return notes_per_step(directory.path() + "/trace.json");
}

}  // namespace

// Whether a task is traced is settled when it starts: two runs take turns, and several such pairs
// are made, since processes differ.
void traced_steps() {
  constexpr int kPairs = 4;
  constexpr int kRounds = 6;
  constexpr double kRoundSeconds = 1;  // the timeline is written twice in that
  const NoteCosts costs = note_costs();
  std::vector<double> with, without;
  int steps = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const TemporaryDirectory directory;
    TrainingRun traced(tracing_to(directory.path() + "/trace.json"));
    TrainingRun plain(kWorkers);
    if (steps == 0) steps = plain.steps_in(kRoundSeconds);
    for (int round = 0; round < kRounds; ++round) {
      with.push_back(traced.seconds_of(steps));
      without.push_back(plain.seconds_of(steps));
    }
  }
  print_effect("--trace, MLP on 2 workers", effect_of(with, without), 3);
  const double spans = counted_notes().spans;
  print_computed(spans, spans * costs.span, median(without) / steps, 3);
}

// The launcher watches, and stands still, in turn: the tasks go on without it.
void watched_steps() {
  constexpr int kRounds = 10;
  constexpr double kRoundSeconds = 2;  // it looks twice in that
  const NoteCosts costs = note_costs();
  const NotesPerStep notes = counted_notes();
  TrainingRun run(kWorkers);
  const test::Process& launcher = run.launcher();
  const int steps = run.steps_in(kRoundSeconds);
  std::vector<double> with, without;
  double used = -processor_seconds(launcher.id());
  for (int round = 0; round < kRounds; ++round) {
    with.push_back(run.seconds_of(steps));
    launcher.freeze();
    without.push_back(run.seconds_of(steps));
    launcher.send(SIGCONT);
  }
  used += processor_seconds(launcher.id());
  print_effect("the stall watcher, MLP on 2 workers", effect_of(with, without), 0.5);
  const double meetings = notes.meetings + 1;  // and the update, which counts as one, too
  const double noted = notes.inputs * costs.input + meetings * costs.meeting + costs.step;
  print_computed(notes.inputs + meetings + 1, noted, median(without) / steps, 0.5);
  double watched_seconds = 0;
  for (const double seconds : with) watched_seconds += seconds;
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  print_figure("  computed: what the launcher takes of the cores",
               used / watched_seconds / cores * 100, "%", 0.5);
}

}  // namespace cohort::bench
