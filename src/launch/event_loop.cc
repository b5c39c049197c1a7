#include "launch/event_loop.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/raise.h"

namespace cohort::cli {
namespace {

bool is_ignored(int signal) {
  struct sigaction present {};
  return sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

}  // namespace

internal::FileDescriptor checked_descriptor(internal::FileDescriptor fd) {
  if (fd) return fd;
  internal::raise(Code::ResourceExhausted, "[Run] no file descriptor is left: {}",
                  std::strerror(errno));
}

void Poller::wait(std::chrono::milliseconds limit) {
  std::vector<pollfd> files;
  for (const auto& [fd, readable] : watched_)
    files.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  if (poll(files.data(), files.size(), static_cast<int>(limit.count())) <= 0) return;
  for (const pollfd& file : files) {
    const auto found = watched_.find(file.fd);  // an earlier call may have removed it
    if (file.revents == 0 || found == watched_.end()) continue;
    const auto readable = found->second;
    readable();
  }
}

void PostedCalls::post(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(call));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void PostedCalls::deliver() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t read_bytes = read(event_.get(), &count, sizeof count);
  }
  for (const auto& call : posted) call();
}

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  file_ =
      checked_descriptor(internal::FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)));
}

int Signals::next() {
  signalfd_siginfo info{};
  return read(file_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
}

}  // namespace cohort::cli
