#include "launch/note_costs.h"

#include "base/activity.h"
#include "base/timeline.h"
#include "launch/launch.h"
#include "ratio.h"
#include "support/temporary_file.h"

namespace cohort::bench {
namespace {

template <typename Body>
double nanoseconds(int times, const Body& body) {
  return seconds_of([&] {
           for (int i = 0; i < times; ++i) body();
         }) *
         1e9 / times;
}

double count(const std::string& text, const std::string& part) {
  double found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

// As in a task, on a page that a launcher could read.
NoteCosts note_costs() {
  const TemporaryDirectory directory;
  const ScopedEnvironment files(
      ScopedEnvironment::Variables{{"COHORT_ACTIVITY_FILE", directory.path() + "/activity"},
                                   {"COHORT_TRACE_FILE", directory.path() + "/trace"}});
  constexpr int kNotes = 1'000'000;
  constexpr int kSpans = 200'000;  // a process keeps a million
  internal::note_step();           // makes the page
  return {.input = nanoseconds(kNotes, [] { const internal::InputNote input; }),
          .meeting = nanoseconds(
              kNotes, [] { internal::note_group_wait(internal::WaitNote::Clock::duration(1)); }),
          .step = nanoseconds(kNotes, [] { internal::note_step(); }),
          .span = nanoseconds(kSpans, [] {
            const internal::TimelineSpan span("collective", "all_reduce(Sum) of float32 (101770,)");
          })};
}

NotesPerStep notes_per_step(const std::string& trace_file) {
  const std::string trace = test::text_of(trace_file);
  const double steps = count(trace, R"("cat":"step")");
  return {.inputs = count(trace, R"("cat":"input")") / steps,
          .meetings = count(trace, R"("cat":"collective")") / steps,
          .spans = count(trace, R"("cat":)") / steps};
}

}  // namespace cohort::bench
