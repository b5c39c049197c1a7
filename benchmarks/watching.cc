// What it costs to be watched by `cohort run`: what a worker notes in every step, and what the
// launcher reads every second, as parts of a step of a millisecond and of a second; and what a step
// with its input and two collectives adds to the timeline of `cohort run --trace`.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/activity.h"
#include "base/timeline.h"

namespace {

using cohort::internal::InputNote;
using Clock = std::chrono::steady_clock;

template <typename Body>
double nanoseconds(int times, const Body& body) {
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i) body();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / times;
}

// As a step of MultiWorkerMirroredStrategy does.
void note_one_step() {
  { const InputNote input; }
  cohort::internal::note_meeting(std::chrono::nanoseconds(1));  // about the input
  cohort::internal::note_meeting(std::chrono::nanoseconds(1));  // about the gradients
  cohort::internal::note_step();
}

void trace_one_step() {
  using cohort::internal::TimelineSpan;
  { const TimelineSpan input("input", "input"); }
  const TimelineSpan step("step", "step");
  { const TimelineSpan counts("collective", "all_reduce(Sum) of int64 (3,)"); }
  { const TimelineSpan gradients("collective", "all_reduce(Sum) of float32 (101770,)"); }
}

}  // namespace

int main() {
  char path[] = "/tmp/cohort_watching_XXXXXX";
  close(mkstemp(path));
  setenv("COHORT_ACTIVITY_FILE", path, 1);
  note_one_step();
  const double step = nanoseconds(1'000'000, note_one_step);
  const double read = nanoseconds(10'000, [&] { (void)cohort::internal::read_activity(path); });
  std::printf("a step's notes: %.0f ns, %.3f %% of a step of 1 ms\n", step, step / 1e6 * 100);
  std::printf("reading a task's: %.0f ns, %.4f %% of a second\n", read, read / 1e9 * 100);
  setenv("COHORT_TRACE_FILE", path, 1);
  const double traced = nanoseconds(200'000, trace_one_step);
  std::printf("a step's timeline: %.0f ns, %.3f %% of a step of 1 ms\n", traced,
              traced / 1e6 * 100);
  unlink(path);
}
