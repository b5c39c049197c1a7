#include "cli/report.h"

#include <fmt/format.h>

#include <map>

namespace cohort::cli {
namespace {

constexpr size_t kLines = 10;   // of output
constexpr size_t kFrames = 12;  // of the stack
constexpr size_t kWidth = 160;

std::string last_lines(const Ending& ending) {
  if (ending.last_lines.empty()) return "  it wrote nothing\n";
  const size_t count = std::min(kLines, ending.last_lines.size());
  std::string text = fmt::format("  its last {}:\n", count == 1 ? "line" : "lines");
  for (size_t i = ending.last_lines.size() - count; i < ending.last_lines.size(); ++i) {
    text += "    | " + shortened(printable(ending.last_lines[i]), kWidth) + "\n";
  }
  return text;
}

std::string back_trace(const std::vector<std::string>& frames) {
  if (frames.empty()) return "";
  std::string text = "  where it was:\n";
  for (size_t i = 0; i < std::min(kFrames, frames.size()); ++i) {
    text += fmt::format("    #{:<2} {}\n", i, shortened_frame(frames[i]));
  }
  if (frames.size() > kFrames) text += fmt::format("    ... {} more\n", frames.size() - kFrames);
  return text;
}

std::string fate_of(const Supervisor::Outcome& outcome) {
  if (!outcome.ending) return "still running";
  if (!outcome.ending->not_started.empty()) return "was not started either";
  if (!outcome.ending->lost_machine.empty()) return "lost with its machine";
  if (outcome.ending->good()) return outcome.asked_to_stop ? "stopped" : "finished";
  if (outcome.asked_to_stop) return "stopped";
  return shortened(explain(*outcome.ending), kWidth);
}

// Those with one fate share a line.
std::string others(const Supervisor& run, size_t guilty) {
  std::map<std::string, std::vector<std::string>> by_fate;
  for (size_t i = 0; i < run.tasks().size(); ++i) {
    if (i != guilty) by_fate[fate_of(run.outcomes()[i])].push_back(label_of(run.tasks()[i].id));
  }
  std::string text;
  for (const auto& [fate, labels] : by_fate) {
    text += fmt::format("  {}: {}\n", shortened(fmt::format("{}", fmt::join(labels, ", ")), kWidth),
                        fate);
  }
  return text;
}

}  // namespace

std::string shortened_frame(const std::string& frame) {
  const size_t place = std::min(frame.rfind(" at "), frame.size());
  const size_t room = kWidth - std::min(kWidth, frame.size() - place + 3);
  return place <= room ? frame : frame.substr(0, room) + "..." + frame.substr(place);
}

std::string failure_report(const Supervisor& run, size_t guilty,
                           const std::vector<std::string>& log_files) {
  const Ending& ending = *run.outcomes()[guilty].ending;
  const int restarts = run.outcomes()[guilty].restarts;
  const bool lost = !ending.lost_machine.empty();
  const std::string fate =
      ending.not_started.empty()
          ? fmt::format("{} after {:.1f} s", lost ? "was lost" : "died", ending.seconds)
          : "was not started";
  std::string text =
      fmt::format("cohort: {} {}: {}\n", label_of(run.tasks()[guilty].id), fate, explain(ending));
  if (restarts > 0) text += fmt::format("  it had been restarted {} times\n", restarts);
  if (ending.not_started.empty()) text += last_lines(ending) + back_trace(ending.crash.frames);
  text += others(run, guilty);
  text += fmt::format("  all it wrote: {}\n", log_files.at(guilty));
  return text;
}

}  // namespace cohort::cli
