#pragma once

#include <string>
#include <vector>

#include "launch/launch.h"
#include "support/temporary_file.h"

namespace cohort::bench {

// A `cohort run` of this program, whose workers train as many steps as they are told to. In between
// they wait, asleep.
class TrainingRun {
 public:
  // Takes options of `cohort run`. Returns when the workers train.
  explicit TrainingRun(const std::vector<std::string>& options);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  double seconds_of(int steps);
  // As many as take about so long.
  int steps_in(double seconds);
  test::Process& launcher() { return launcher_; }
  // Ends the workers. The launcher has written all it writes when this returns.
  void end();

 private:
  std::string answer();

  const test::LaunchDirectory run_directory_;
  const TemporaryDirectory directory_;  // of the two pipes
  int orders_;
  const int times_;
  test::Process launcher_;
};

}  // namespace cohort::bench
