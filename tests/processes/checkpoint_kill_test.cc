// A process that saves again and again is killed at random moments: the last good checkpoint always
// loads, and nothing that was reported as saved is lost. COHORT_KILLS says how often, of each kind.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "cohort/checkpoint.h"
#include "cohort/cohort.h"
#include "support/temporary_file.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

constexpr int64_t kElements = 20'000;

int kills() {
  const char* asked = std::getenv("COHORT_KILLS");
  return asked != nullptr ? std::atoi(asked) : 50;
}

enum class Kind { Steps, Sharded, SamePrefix, Asynchronous };

std::string to_string(Kind kind) {
  const char* names[] = {"Steps", "Sharded", "SamePrefix", "Asynchronous"};
  return names[static_cast<int>(kind)];
}

// In the child: saves counters that count the saves, going on from the last good checkpoint, and
// reports each save that is done.
[[noreturn]] void save_for_ever(Kind kind, const std::string& directory, int report) {
  const bool sharded = kind == Kind::Sharded;
  internal::ensure_cpu_devices(2);
  Graph graph;
  const auto building = graph.as_default();
  std::vector<Variable> variables;
  std::vector<Tensor> changes;
  for (const char* place : {"/device:CPU:0", "/device:CPU:1"}) {
    const auto on = device(place);
    variables.emplace_back(zeros({kElements}, kInt64), VariableOptions{.name = "w"});
    changes.push_back(variables.back().assign_add(int64_t{1}));
  }
  const Tensor count = group(changes);
  Saver saver({.max_to_keep = 2, .sharded = sharded, .asynchronous = kind == Kind::Asynchronous});
  Session session;
  session.run(global_variables_initializer());
  if (const auto latest = latest_checkpoint(directory)) saver.restore(session, *latest);
  while (true) {
    session.run(count);
    const int64_t step = session.run(variables[0]).at<int64_t>({0});
    SaveOptions options;
    if (kind != Kind::SamePrefix) options.global_step = step;
    saver.save(session, directory + "/model", options);
    if (kind == Kind::Asynchronous) saver.wait();
    if (::write(report, &step, sizeof step) != sizeof step) std::_Exit(1);
  }
}

class SavingProcess {
 public:
  SavingProcess(Kind kind, const std::string& directory) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    read_end_ = ends[0];
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[0]);
      save_for_ever(kind, directory, ends[1]);
    }
    ::close(ends[1]);
  }
  ~SavingProcess() { ::close(read_end_); }

  void await_first_save() const {
    pollfd first{.fd = read_end_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&first, 1, 20'000), 1) << "no save in 20 s";
  }

  void kill_after(std::chrono::microseconds delay) const {
    std::this_thread::sleep_for(delay);
    ::kill(child_, SIGKILL);
    int status = 0;
    ::waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }

  // The last save that it reported.
  int64_t last_reported() {
    int64_t step = -1;
    for (int64_t next = 0; ::read(read_end_, &next, sizeof next) == sizeof next;) step = next;
    return step;
  }

 private:
  pid_t child_ = 0;
  int read_end_ = 0;
};

// Everything in the checkpoint is of one save.
int64_t save_of(const CheckpointReader& reader) {
  const int64_t step = reader.read("w").at<int64_t>({0});
  for (const char* name : {"w", "w_1"}) {
    for (const int64_t value : reader.read(name).to_vector<int64_t>()) {
      if (value != step) ADD_FAILURE() << name << " has " << value << " beside " << step;
      if (value != step) break;
    }
  }
  return step;
}

// Files with tensors, whole or not, that no checkpoint consists of.
std::set<std::string> abandoned_data(const std::string& directory) {
  constexpr std::string_view kManifest = ".manifest.json";
  std::set<std::string> data, needed;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (path.find(".safetensors") != std::string::npos) data.insert(path);
    if (!path.ends_with(kManifest)) continue;
    const CheckpointReader reader(path.substr(0, path.size() - kManifest.size()));
    for (const std::string& file : reader.files()) needed.insert(file);
  }
  std::erase_if(data, [&](const std::string& file) { return needed.contains(file); });
  return data;
}

class KilledSaver : public ::testing::TestWithParam<Kind> {};

TEST_P(KilledSaver, LeavesAGoodCheckpointWheneverItIsKilled) {
  const TemporaryDirectory directory;
  const unsigned seed = 20'240'611;
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> microseconds(0, 20'000);
  int64_t reported = 0;
  for (int i = 0; i < kills(); ++i) {
    SCOPED_TRACE("kill " + std::to_string(i) + ", seed " + std::to_string(seed));
    SavingProcess process(GetParam(), directory.path());
    // Every other one is killed while it starts, restores or first saves.
    if (i % 2 == 0) process.await_first_save();
    process.kill_after(std::chrono::microseconds(microseconds(random)));
    reported = std::max(reported, process.last_reported());
    const auto latest = latest_checkpoint(directory.path());
    ASSERT_TRUE(latest);
    EXPECT_GE(save_of(CheckpointReader(*latest)), reported);
    // A save clears what the killed one before it left, so that nothing adds up: one has two files.
    const std::set<std::string> abandoned = abandoned_data(directory.path());
    EXPECT_LE(abandoned.size(), 2u) << ::testing::PrintToString(abandoned);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KilledSaver,
                         ::testing::Values(Kind::Steps, Kind::Sharded, Kind::SamePrefix,
                                           Kind::Asynchronous),
                         [](const auto& param) { return to_string(param.param); });

}  // namespace
}  // namespace cohort
