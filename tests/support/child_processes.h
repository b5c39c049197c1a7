#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

namespace cohort {

// Processes forked from this one, which must have no threads yet. Those that still run in the end
// are killed; so they are when this one dies.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  ~ChildProcesses() {
    for (size_t number = 0; number < children_.size(); ++number) {
      if (children_[number] > 0) kill_child(static_cast<int>(number));
    }
  }

  // It ends with what `body` returns, or with 99 when that throws.
  void start(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(run(body));
    }
    children_.push_back(child);
  }

  void kill_child(int number) {
    kill(children_[static_cast<size_t>(number)], SIGKILL);
    wait_for(number);
  }
  // The exit code; -1 when a signal ended it.
  int wait_for(int number) {
    int status = 0;
    waitpid(children_[static_cast<size_t>(number)], &status, 0);
    children_[static_cast<size_t>(number)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // An exception that left the child's body would make the child go on with the parent's tests.
  static int run(const std::function<int()>& body) {
    try {
      return body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", static_cast<int>(getpid()), error.what());
      return 99;
    }
  }

  std::vector<pid_t> children_;
};

}  // namespace cohort
