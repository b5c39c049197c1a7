#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/activity.h"

namespace cohort::cli {

// How far the training of a run is: on a terminal a row below the lines of the tasks, elsewhere a
// line every few seconds. Where several tasks tell, the first one's is shown. What all tell is
// written down in the run's folder for `cohort status`.
class ProgressView {
 public:
  using PrintLine = std::function<void(size_t task, const std::string& text)>;
  // `labels` are those of the tasks.
  ProgressView(std::string run_folder, std::vector<std::string> labels, PrintLine print);

  // An empty note: the task does not train any more.
  void heard(size_t task, const internal::ProgressNote& note);

 private:
  using Clock = std::chrono::steady_clock;
  void write_down() const;
  void show();

  const std::string run_folder_;
  const std::vector<std::string> labels_;
  const PrintLine print_;
  std::map<size_t, internal::ProgressNote> notes_;
  Clock::time_point printed_;  // last
};

}  // namespace cohort::cli
