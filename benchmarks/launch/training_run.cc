#include "launch/training_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <utility>

#include "own_path.h"

namespace cohort::bench {
namespace {

constexpr auto kLimit = std::chrono::seconds(120);
constexpr int kRuns = -1000;  // what waiting for a process says that has not ended

// Both ends, so that nobody waits for the other one to open it.
int open_pipe(const std::string& path) {
  const int made = mkfifo(path.c_str(), 0600);
  const int file = made == 0 ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) throw Error(Code::ResourceExhausted, "no pipe can be made at " + path);
  return file;
}

std::vector<std::string> words_of(std::vector<std::string> options, const std::string& directory) {
  options.insert(options.end(), {own_path(), "task", directory});
  return test::run_words(options);
}

}  // namespace

TrainingRun::TrainingRun(const std::vector<std::string>& options)
    : orders_(open_pipe(directory_.path() + "/orders")),
      times_(open_pipe(directory_.path() + "/times")),
      launcher_(words_of(options, directory_.path())) {
  seconds_of(5);
}

TrainingRun::~TrainingRun() {
  end();
  close(times_);
}

void TrainingRun::end() {
  if (orders_ < 0) return;
  close(std::exchange(orders_, -1));  // the workers read no more numbers
  launcher_.wait();
}

double TrainingRun::seconds_of(int steps) {
  const std::string order = std::to_string(steps) + "\n";
  if (write(orders_, order.data(), order.size()) < 0) {
    throw Error(Code::Unavailable, "the workers cannot be told");
  }
  return std::stod(answer());
}

int TrainingRun::steps_in(double seconds) {
  constexpr int kTried = 20;
  return std::max(1, static_cast<int>(seconds / seconds_of(kTried) * kTried));
}

std::string TrainingRun::answer() {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  std::string line;
  while (!line.ends_with('\n')) {
    pollfd next{.fd = times_, .events = POLLIN, .revents = 0};
    if (poll(&next, 1, 100) > 0) {
      char letter = 0;
      if (read(times_, &letter, 1) == 1) line += letter;
    } else if (launcher_.wait(std::chrono::milliseconds(0)) != kRuns ||
               std::chrono::steady_clock::now() > deadline) {
      throw Error(Code::Unavailable, "the workers do not train:\n" + launcher_.output());
    }
  }
  return line;
}

}  // namespace cohort::bench
