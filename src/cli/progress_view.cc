#include "cli/progress_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/known_tasks.h"
#include "cli/task_output.h"

namespace cohort::cli {
namespace {

constexpr std::chrono::seconds kLineInterval{3};

}  // namespace

ProgressView::ProgressView(std::string run_folder, std::vector<std::string> labels, PrintLine print)
    : run_folder_(std::move(run_folder)),
      labels_(std::move(labels)),
      print_(std::move(print)),
      printed_(Clock::now()) {}

void ProgressView::heard(size_t task, const internal::ProgressNote& note) {
  const bool changes =
      note.text.empty() ? notes_.erase(task) > 0 : std::exchange(notes_[task], note) != note;
  if (!changes) return;
  write_down();
  show();
}

void ProgressView::write_down() const {
  std::map<std::string, std::string> progress;
  for (const auto& [task, note] : notes_) progress[labels_.at(task)] = note.text;
  write_progress_file(run_folder_, progress);
}

void ProgressView::show() {
  const auto first = std::find_if(notes_.begin(), notes_.end(),
                                  [](const auto& each) { return !each.second.quiet; });
  const bool shown = first != notes_.end();
  if (can_show_row()) {
    show_row(shown ? fmt::format("[{}] {}", labels_.at(first->first), printable(first->second.text))
                   : "");
  } else if (shown && Clock::now() - printed_ >= kLineInterval) {
    printed_ = Clock::now();
    print_(first->first, first->second.text);
  }
}

}  // namespace cohort::cli
