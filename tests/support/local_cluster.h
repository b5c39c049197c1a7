#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/server.h"
#include "support/free_ports.h"

namespace cohort::test {

// Servers of all tasks of a cluster, in this process.
class LocalCluster {
 public:
  LocalCluster(int num_ps, int num_workers, const ServerOptions& options = {})
      : spec_(free_cluster(num_ps, num_workers)), options_(options) {
    for (int i = 0; i < num_ps; ++i) start("ps", i);
    for (int i = 0; i < num_workers; ++i) start("worker", i);
  }

  const ClusterSpec& spec() const { return spec_; }
  Server& server(const std::string& job, int index) { return *servers_.at({job, index}); }
  std::string target(const std::string& job = "worker", int index = 0) {
    return "grpc://" + spec_.task_address(job, index);
  }
  void stop(const std::string& job, int index) { servers_.erase({job, index}); }
  void start(const std::string& job, int index) {
    servers_[{job, index}] =
        std::make_unique<Server>(spec_, ServerTask{.job_name = job, .task_index = index}, options_);
  }

 private:
  const ClusterSpec spec_;
  const ServerOptions options_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Server>> servers_;
};

}  // namespace cohort::test
