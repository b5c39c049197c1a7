#include "coordinator/failure.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kPs = "/job:ps/replica:0/task:";

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error == std::errc() && stop == end && value >= 0) return value;
  log_warning("[Coordinator] {}='{}' is no number; {} is used", name, text, otherwise);
  return otherwise;
}

bool is_lost_peer(Code code) { return code == Code::Unavailable || code == Code::Aborted; }

}  // namespace

FailureLimits FailureLimits::of(int workers) {
  return {.ps_failures = from_environment("TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES", 3),
          .timeouts = from_environment("TF_COORDINATOR_IGNORE_TRANSIENT_TIMEOUTS", workers / 10)};
}

std::string parameter_server_in(const Status& status) {
  const std::string text = status.to_string();
  const size_t at = text.find(kPs);
  if (at == std::string::npos) return "";
  const size_t end = text.find_first_not_of("0123456789", at + kPs.size());
  return text.substr(at, std::min(end, text.size()) - at);
}

Status told_when_cancelling(const Status& status) {
  if (!is_lost_peer(status.code)) return status;
  return {.code = Code::Cancelled,
          .message = "[Coordinator] the function was cancelled while it ran",
          .origin = status.origin,
          .cause = std::make_shared<const Status>(status)};
}

int Incidents::note(Time begun, Time now) {
  if (now - last_ > kHealthy) count_ = 0;
  last_ = now;
  if (count_ > 0 && begun <= noted_) return count_;
  noted_ = now;
  return ++count_;
}

FailureKind FailureClassifier::classify(const Status& status, Time begun, Time now) {
  if (is_lost_peer(status.code)) {
    return parameter_server_in(status).empty() ? FailureKind::Worker : FailureKind::ParameterServer;
  }
  if (status.code == Code::Cancelled) return FailureKind::Transient;
  if (status.code == Code::DeadlineExceeded) {
    const std::lock_guard lock(mutex_);
    const bool forgiven = timeouts_.note(begun, now) < limits_.timeouts;
    return forgiven ? FailureKind::Transient : FailureKind::Function;
  }
  return FailureKind::Function;
}

bool FailureClassifier::is_lost(const std::string& ps, Time begun, Time now) {
  const std::lock_guard lock(mutex_);
  return ps_failures_[ps].note(begun, now) >= limits_.ps_failures;
}

}  // namespace cohort::internal
