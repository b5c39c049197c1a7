#include "trainer/end_signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <mutex>

namespace cohort::internal {
namespace {

// Signals belong to the process, so this state does, too.
constexpr std::array kSignals{SIGTERM, SIGINT};
std::mutex mutex;
int users = 0;                                     // guarded by mutex
std::array<bool, kSignals.size()> installed = {};  // guarded by mutex
std::atomic<int> signal_received = 0;
std::atomic<int> fits_under_way = 0;                   // how many calls of fit() make steps
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// The handler first notes the signal and then looks whether steps are made. ~Steps and ~EndSignals
// do the opposite, so that one of the two sees the other.
void note_signal(int signal) {
  int none = 0;
  const bool first = signal_received.compare_exchange_strong(none, signal);
  if (!first || fits_under_way == 0) end_by(signal);
}

bool is_default(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  return (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
}

}  // namespace

EndSignals::EndSignals() {
  const std::lock_guard lock(mutex);
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
  const std::lock_guard lock(mutex);
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
  end_by(received());
  _exit(128 + received());  // reached where the signal is blocked
}

}  // namespace cohort::internal
