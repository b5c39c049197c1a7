#include "base/rare_log.h"

#include <chrono>

#include "base/log.h"

namespace cohort::internal {

bool RareLog::is_due() {
  using std::chrono::nanoseconds;
  constexpr nanoseconds kPause = std::chrono::seconds(10);
  const nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  int64_t next = next_ns_.load();
  if (now.count() >= next && next_ns_.compare_exchange_strong(next, (now + kPause).count())) {
    return true;
  }
  ++left_out_;
  return false;
}

void RareLog::write(fmt::string_view text, fmt::format_args args) noexcept {
  const uint64_t left_out = left_out_.exchange(0);
  if (left_out == 0) {
    if (log_enabled(LogLevel::Warning)) write_log(LogLevel::Warning, text, args);
    return;
  }
  try {
    log_warning("{} ({} lines like this one were left out)", fmt::vformat(text, args), left_out);
  } catch (...) {
    // As in write_log.
  }
}

}  // namespace cohort::internal
