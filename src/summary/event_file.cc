#include "summary/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "base/raise.h"
#include "base/system_error.h"

namespace cohort::internal {
namespace {

constexpr int kStart = 1;  // SessionLog.SessionStatus.START

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// No other writer has this name: TensorBoard takes several files of one folder together.
std::string new_path(const std::string& folder, const SummaryWriterOptions& options) {
  static std::atomic<int> next = 0;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    raise(code_of_errno(failed.value()), "[SummaryWriter] cannot make the folder '{}': {}", folder,
          failed.message());
  }
  return fmt::format("{}/events.out.tfevents.{:.0f}.{}.{}.{}{}", folder, seconds_since_1970(),
                     host_name(), getpid(), next++, options.filename_suffix);
}

}  // namespace

EventFile::EventFile(const std::string& folder, const SummaryWriterOptions& options)
    : flush_interval_(options.flush_interval), path_(new_path(folder, options)), records_(path_) {
  events::Event first;
  first.set_file_version("brain.Event:2");
  add(std::move(first));
  if (options.purge_step) {
    events::Event start;
    start.set_step(*options.purge_step);
    start.mutable_session_log()->set_status(kStart);
    add(std::move(start));
  }
  flush();
}

void EventFile::add(events::Event event) {
  event.set_wall_time(seconds_since_1970());
  const std::string bytes = event.SerializeAsString();
  const std::lock_guard lock(mutex_);
  records_.write(bytes);
  if (Clock::now() - last_flush_ < flush_interval_) return;
  records_.flush();
  last_flush_ = Clock::now();
}

void EventFile::flush() {
  const std::lock_guard lock(mutex_);
  records_.flush();
  last_flush_ = Clock::now();
}

void EventFile::close() {
  const std::lock_guard lock(mutex_);
  records_.close();
}

}  // namespace cohort::internal
