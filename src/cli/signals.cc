#include "cli/signals.h"

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

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  file_ = internal::FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!file_) {
    internal::raise(Code::ResourceExhausted, "[Run] no file descriptor is left: {}",
                    std::strerror(errno));
  }
}

int Signals::next() {
  signalfd_siginfo info{};
  return read(file_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
}

}  // namespace cohort::cli
