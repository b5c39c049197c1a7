#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cohort::bench {

// A training in another process, which says "ready", and then, for every number of steps that it is
// told, the seconds that they took.
class ProcessTraining {
 public:
  // Runs `words`, of which the first is the program's path.
  explicit ProcessTraining(const std::vector<std::string>& words);
  ~ProcessTraining();
  ProcessTraining(const ProcessTraining&) = delete;
  ProcessTraining& operator=(const ProcessTraining&) = delete;

  // Returns when it is ready.
  void await();
  // Trains that many steps. In between it waits, asleep.
  double seconds_of(int steps);

 private:
  std::string answer();

  const std::string program_;
  pid_t process_ = 0;
  int socket_ = -1;
};

// With PyTorch's DistributedDataParallel, in two processes; see ddp.py.
class DdpTraining : public ProcessTraining {
 public:
  static bool is_installed();
  explicit DdpTraining(const std::string& model);
};

// With tf.distribute's MultiWorkerMirroredStrategy, in two processes; see tf_distribute.py.
class TensorFlowTraining : public ProcessTraining {
 public:
  static bool is_installed();
  explicit TensorFlowTraining(const std::string& model);
};

}  // namespace cohort::bench
