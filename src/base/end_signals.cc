#include "base/end_signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "base/mutex.h"
#include "base/timeline.h"

namespace cohort::internal {
namespace {

// Signals belong to the process, so this state does, too.
constexpr std::array kSignals{SIGTERM, SIGINT};
Mutex end_signals_mutex;
int users = 0;                                     // guarded by end_signals_mutex
std::array<bool, kSignals.size()> installed = {};  // guarded by end_signals_mutex
std::atomic<int> signal_received = 0;
std::atomic<int64_t> received_at = 0;  // when the first signal came, in ms; 0: none came
std::atomic<int> fits_under_way = 0;   // how many calls of fit() make steps
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler, and so is the next line
static_assert(std::atomic<int64_t>::is_always_lock_free);

// A task may get SIGTERM from its launcher and from the service manager that stops the launcher.
constexpr int64_t kSameRequestMs = 2000;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // safe in a handler
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// The handler first notes the signal and then looks whether steps are made. ~Steps and ~EndSignals
// do the opposite, so that one of the two sees the other.
void note_signal(int signal) {
  const int64_t now = now_ms();
  int64_t before = 0;
  const bool first = received_at.compare_exchange_strong(before, now);
  if (first) signal_received = signal;
  const bool insists = !first && (signal == SIGINT || now - before >= kSameRequestMs);
  if (insists || fits_under_way == 0) end_by(signal);
}

bool is_default(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  return (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
}

}  // namespace

EndSignals::EndSignals() {
  const std::lock_guard lock(end_signals_mutex);
  if (users++ > 0) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    installed[i] = is_default(kSignals[i]) && sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

EndSignals::~EndSignals() {
  if (received() != 0) end();
  const std::lock_guard lock(end_signals_mutex);
  if (--users > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (installed[i]) std::signal(kSignals[i], SIG_DFL);
  }
}

EndSignals::Steps::Steps() { ++fits_under_way; }
EndSignals::Steps::~Steps() { --fits_under_way; }

int EndSignals::received() { return signal_received; }

void EndSignals::end() {
  std::fflush(nullptr);
  write_timeline();
  end_by(received());
  _exit(128 + received());  // reached where the signal is blocked
}

}  // namespace cohort::internal
