#include "cluster/stop_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace cohort::internal {
namespace {

// Signals are a fact about the process, so there is one of each.
std::mutex mutex;
int users = 0;                                         // guarded by mutex
bool installed = false;                                // guarded by mutex
std::atomic<int> event_fd = -1;                        // set before the handler is installed
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void note_signal(int) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof one);
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(mutex);
  if (event_fd < 0) event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (users++ > 0 || event_fd < 0) return;
  uint64_t earlier = 0;  // a signal that ended those who waited before
  [[maybe_unused]] const ssize_t taken = ::read(event_fd, &earlier, sizeof earlier);
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  installed = sigaction(SIGTERM, &action, nullptr) == 0;
}

StopSignal::~StopSignal() {
  const std::lock_guard lock(mutex);
  if (--users > 0 || !installed) return;
  std::signal(SIGTERM, SIG_DFL);
  installed = false;
}

int StopSignal::event() const { return event_fd; }

}  // namespace cohort::internal
