// What launcher and guard compute while their tasks only wait.

#include <fstream>
#include <thread>

#include "launch/figures.h"
#include "launch/parts.h"
#include "launch/processor_time.h"
#include "launch/training_run.h"

namespace cohort::bench {
namespace {

constexpr double kSeconds = 10;

// The launcher's child with that name.
pid_t guard_of(pid_t launcher) {
  const std::string number = std::to_string(launcher);
  std::ifstream children("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child = 0; children >> child;) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
    if (name == "cohort-reaper") return child;
  }
  throw Error(Code::NotFound, "the launcher has no guard");
}

}  // namespace

void idle_launcher() {
  // They wait for the first of them, which is told nothing. That would be a stall.
  TrainingRun run({"-n", "4", "--stall-after", "3600"});
  const pid_t launcher = run.launcher().id();
  const pid_t guard = guard_of(launcher);
  const auto used = [&] { return processor_seconds(launcher) + processor_seconds(guard); };
  const double before = used();
  std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
  print_figure("an idle launcher of 4 tasks, of one core", (used() - before) / kSeconds * 100, "%",
               1);
}

}  // namespace cohort::bench
