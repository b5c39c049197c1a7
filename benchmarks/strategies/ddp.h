#pragma once

#include <sys/types.h>

#include <string>

namespace cohort::bench {

// A training with PyTorch's DistributedDataParallel in two processes of their own; see ddp.py.
class DdpTraining {
 public:
  static bool is_installed();

  explicit DdpTraining(const std::string& model);
  ~DdpTraining();
  DdpTraining(const DdpTraining&) = delete;
  DdpTraining& operator=(const DdpTraining&) = delete;

  // Trains that many steps. In between its processes wait, asleep.
  double seconds_of(int steps);

 private:
  std::string answer();

  pid_t process_ = 0;
  int socket_ = -1;
};

}  // namespace cohort::bench
