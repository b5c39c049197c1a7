#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "cohort/internal/durations.h"

// What event files hold, for programs that read them. cohort/summary.h writes them.

namespace cohort {

// The values of an event file that are not a single number.
struct SummaryHistogram {
  double min = 0, max = 0, sum = 0;
  int64_t count = 0;
};
struct SummaryImage {
  int height = 0, width = 0, channels = 0;
  std::string png = {};
};
struct SummaryText {
  std::string text = {};
};
struct SummaryGraph {
  int64_t nodes = 0;
};

// SummaryEvent is one value of an event file.
struct SummaryEvent {
  std::chrono::system_clock::time_point time = {};
  int64_t step = 0;
  std::string tag = {};
  std::variant<double, SummaryHistogram, SummaryImage, SummaryText, SummaryGraph> value = {};
};

// Returns the values of an event file, which any program may have written, in their order. Leaves
// out other kinds of values. Throws NotFound if the file does not exist, and DataLoss with the
// position if a record is damaged or cut short.
std::vector<SummaryEvent> read_events(const std::string& path);
// Calls `take` for each value, so that the values before a damaged record are not lost.
void read_events(const std::string& path, const std::function<void(const SummaryEvent&)>& take);

}  // namespace cohort
