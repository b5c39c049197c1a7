#pragma once

#include <cohort/cohort.h>

#include <memory>
#include <string>
#include <vector>

#include "own_path.h"
#include "support/process_cluster.h"

// The parts of the benchmark of clusters. Each prints its figures beside their limits.
namespace cohort::bench {

void null_steps();
void large_tensors();
void push_and_pull();
void training();
void opening();

// What other processes of the benchmark do; none returns.
[[noreturn]] void train_worker(const ClusterSpec& cluster, int index);

// Servers in processes of their own whose messages go one way: "shared-memory" or "grpc".
class Tasks {
 public:
  explicit Tasks(const std::string& way, int num_ps = 1, int num_workers = 1) {
    setenv("COHORT_TRANSPORT", way.c_str(), 1);
    tasks_ = std::make_unique<test::ProcessCluster>(own_path(), num_ps, num_workers);
  }
  ~Tasks() { unsetenv("COHORT_TRANSPORT"); }
  std::string target() const { return tasks_->target(); }

 private:
  std::unique_ptr<test::ProcessCluster> tasks_;
};

}  // namespace cohort::bench
