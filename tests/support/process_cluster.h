#pragma once

#include <map>
#include <memory>

#include "support/free_ports.h"
#include "support/process.h"

namespace cohort::test {

// Servers of all tasks of a cluster, each in a process of its own: `program` is tests/cluster/task.
class ProcessCluster {
 public:
  ProcessCluster(std::string program, int num_ps, int num_workers)
      : program_(std::move(program)), spec_(free_cluster(num_ps, num_workers)) {
    for (int i = 0; i < num_ps; ++i) start("ps", i);
    for (int i = 0; i < num_workers; ++i) start("worker", i);
  }

  const ClusterSpec& spec() const { return spec_; }
  std::string target(const std::string& job = "worker", int index = 0) const {
    return "grpc://" + spec_.task_address(job, index);
  }
  Process& task(const std::string& job, int index) { return *tasks_.at({job, index}); }
  void start(const std::string& job, int index) {
    tasks_[{job, index}] = std::make_unique<Process>(std::vector<std::string>{
        program_, joined("ps"), joined("worker"), job, std::to_string(index)});
  }
  std::string joined(const std::string& job) const {
    std::string list;
    for (const int index : spec_.task_indices(job)) {
      list += (list.empty() ? "" : ",") + spec_.task_address(job, index);
    }
    return list;
  }

 private:
  const std::string program_;
  const ClusterSpec spec_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Process>> tasks_;
};

}  // namespace cohort::test
