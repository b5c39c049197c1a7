#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "cohort/events.pb.h"
#include "cohort/readers.h"
#include "cohort/summary.h"

namespace cohort::internal {

// The file that a SummaryWriter adds to. Thread-safe.
class EventFile {
 public:
  EventFile(const std::string& folder, const SummaryWriterOptions& options);

  // Adds the time.
  void add(events::Event event);
  void flush();
  void close();
  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds flush_interval_;
  const std::string path_;
  std::mutex mutex_;
  data::TFRecordWriter records_;
  Clock::time_point last_flush_ = Clock::now();
};

}  // namespace cohort::internal
