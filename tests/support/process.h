#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cohort/error.h"

extern char** environ;

namespace cohort::test {

// A program that runs beside the test. Killed, when it still runs, with the object.
class Process {
 public:
  explicit Process(const std::vector<std::string>& words) {
    char name[] = "/tmp/cohort_process_XXXXXX";
    const int out = mkostemp(name, O_CLOEXEC);
    output_ = name;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);  // locks that the test's caller holds
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int error = posix_spawn(&id_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out);
    if (error != 0) throw Error(Code::NotFound, "cannot start " + words[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!ended_) {
      send(SIGKILL);
      wait();
    }
    unlink(output_.c_str());
  }

  pid_t id() const { return id_; }
  void send(int signal) const { ::kill(id_, signal); }
  // Stops it; it does nothing more when this returns, until SIGCONT.
  void freeze() const {
    send(SIGSTOP);
    siginfo_t stopped;
    waitid(P_PID, static_cast<id_t>(id_), &stopped, WSTOPPED | WEXITED | WNOWAIT);
  }

  // How it ended: its exit code, or minus the signal that ended it. -1000 when it still runs after
  // the limit.
  int wait(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!ended_) {
      int status = 0;
      if (waitpid(id_, &status, WNOHANG) == id_) {
        ended_ = true;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      } else if (std::chrono::steady_clock::now() >= deadline) {
        return -1000;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    return code_;
  }

  // What it has written so far, to either stream.
  std::string output() const {
    std::ifstream file(output_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  pid_t id_ = -1;
  std::string output_;
  bool ended_ = false;
  int code_ = 0;
};

}  // namespace cohort::test
