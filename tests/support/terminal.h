#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

extern char** environ;

namespace cohort::test {

// What a terminal shows after it was sent this text: its rows, without those at the end that are
// empty. Knows "\r", "\n", "\033[K" (erases the rest of the row) and colours.
inline std::vector<std::string> rows_on_screen(const std::string& text) {
  std::vector<std::string> rows(1);
  size_t column = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      rows.emplace_back();
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 2, "\033[") == 0) {
      i = text.find_first_not_of("0123456789;", i + 2);
      if (i == std::string::npos) break;
      if (text[i] == 'K') rows.back().resize(std::min(column, rows.back().size()));
    } else {
      rows.back().resize(std::max(column + 1, rows.back().size()), ' ');
      rows.back()[column++] = text[i];
    }
  }
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

// A program whose streams are a terminal of so many columns. Killed, when it still runs, with the
// object.
class TerminalProcess {
 public:
  TerminalProcess(const std::vector<std::string>& words, unsigned short columns) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) return;
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
    const std::string name = ptsname(terminal_);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&actions, fd, name.c_str(), O_RDWR | O_NOCTTY, 0);
    }
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (posix_spawn(&id_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) id_ = 0;
    posix_spawn_file_actions_destroy(&actions);
  }
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;
  ~TerminalProcess() {
    if (id_ > 0) {
      kill(id_, SIGKILL);
      waitpid(id_, nullptr, 0);
    }
    close(terminal_);
  }

  // All that it has written so far.
  const std::string& output() {
    char block[4096];
    for (;;) {
      pollfd file{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (poll(&file, 1, 0) <= 0) return output_;
      const ssize_t size = read(terminal_, block, sizeof block);
      if (size <= 0) return output_;  // EIO: it has ended
      output_.append(block, static_cast<size_t>(size));
    }
  }

  // Its exit code; -1000 when it still runs after the limit, or did not exit by itself.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (waitpid(id_, &status, WNOHANG) != id_) {
      if (std::chrono::steady_clock::now() >= deadline) return -1000;
      output();  // a program whose terminal is full would wait
      usleep(2000);
    }
    id_ = 0;
    output();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1000;
  }

 private:
  int terminal_ = -1;
  pid_t id_ = 0;
  std::string output_;
};

}  // namespace cohort::test
