#include "peers.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace cohort::bench {

bool DdpTraining::is_installed() { return !std::string(COHORT_PYTORCH_PYTHON).empty(); }

DdpTraining::DdpTraining(const std::string& model)
    : ProcessTraining({COHORT_PYTORCH_PYTHON, COHORT_DDP_PROGRAM, model}) {
  await();
}

bool TensorFlowTraining::is_installed() { return !std::string(COHORT_TENSORFLOW_PYTHON).empty(); }

TensorFlowTraining::TensorFlowTraining(const std::string& model)
    : ProcessTraining({COHORT_TENSORFLOW_PYTHON, COHORT_TENSORFLOW_PROGRAM, model}) {
  await();
}

ProcessTraining::ProcessTraining(const std::vector<std::string>& words) : program_(words[0]) {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error("socketpair");
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int failure =
      posix_spawn(&process_, program_.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  socket_ = ends[0];
  if (failure != 0) throw std::runtime_error(program_ + " did not start");
}

ProcessTraining::~ProcessTraining() {
  close(socket_);  // it ends when nobody asks any more
  waitpid(process_, nullptr, 0);
}

void ProcessTraining::await() {
  if (answer() != "ready") throw std::runtime_error(program_ + " is not ready");
}

double ProcessTraining::seconds_of(int steps) {
  const std::string question = std::to_string(steps) + "\n";
  if (send(socket_, question.data(), question.size(), MSG_NOSIGNAL) < 0) {
    throw std::runtime_error(program_);
  }
  return std::stod(answer());
}

std::string ProcessTraining::answer() {
  std::string line;
  for (char next = 0; read(socket_, &next, 1) == 1 && next != '\n';) line += next;
  return line;
}

}  // namespace cohort::bench
