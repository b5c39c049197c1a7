#include "cli/captured_output.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "cli/child.h"
#include "cli/poller.h"
#include "cohort/error.h"

namespace cohort::cli {
namespace {

// Adds what can be read; false at the end.
bool read_some(int from, std::string& text) {
  char block[16 << 10];
  const ssize_t size = read(from, block, sizeof block);
  if (size > 0) text.append(block, static_cast<size_t>(size));
  return size > 0;
}

}  // namespace

std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit) {
  Child child;
  if (!capture_status([&] { child = start_child({.command = command}); }).ok()) return "";
  std::string text, ignored;
  Poller poller;
  int open_files = 2;
  const auto watch = [&](int fd, std::string& into) {
    poller.watch(fd, [&, fd] {
      if (read_some(fd, into)) return;
      poller.forget(fd);
      --open_files;
    });
  };
  watch(child.output, text);
  watch(child.errors, ignored);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_files > 0 && std::chrono::steady_clock::now() < deadline) {
    poller.wait(std::chrono::milliseconds(50));
  }
  kill(-child.id, SIGKILL);
  waitpid(child.id, nullptr, 0);
  close(child.output);
  close(child.errors);
  return text;
}

}  // namespace cohort::cli
