#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "cohort/multi_worker.h"
#include "support/free_ports.h"

namespace cohort::test {

inline const MultiWorkerOptions kTwoReplicas{.devices = {"CPU:0", "CPU:1"}};

inline ClusterSpec free_workers(int count) {
  return ClusterSpec(std::map<std::string, TaskList>{{"worker", free_addresses(count)}});
}

inline SimpleClusterResolver worker_of(const ClusterSpec& cluster, int id) {
  return SimpleClusterResolver(cluster, {.task_type = "worker", .task_id = id});
}

// Runs `body(id)` as each of the workers at the same time, in threads of this process. What each
// threw.
inline std::vector<Status> run_threads(int workers, const std::function<void(int)>& body) {
  std::vector<Status> statuses(static_cast<size_t>(workers));
  std::vector<std::jthread> threads;
  for (int id = 0; id < workers; ++id) {
    threads.emplace_back(
        [&, id] { statuses[static_cast<size_t>(id)] = capture_status([&] { body(id); }); });
  }
  threads.clear();
  return statuses;
}

// The same with a strategy each.
inline std::vector<Status> run_workers(
    int workers, const std::function<void(MultiWorkerMirroredStrategy&)>& body,
    const MultiWorkerOptions& options = {}) {
  const ClusterSpec cluster = free_workers(workers);
  return run_threads(workers, [&](int id) {
    MultiWorkerMirroredStrategy strategy(worker_of(cluster, id), options);
    body(strategy);
  });
}

// None of them may throw.
inline void on_workers(int workers, const std::function<void(MultiWorkerMirroredStrategy&)>& body,
                       const MultiWorkerOptions& options = {}) {
  for (const Status& status : run_workers(workers, body, options)) {
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

// Each of them threw FailedPrecondition with these parts in its text.
inline void expect_on_all(const std::vector<Status>& statuses,
                          std::initializer_list<const char*> parts) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.root().code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part : parts) {
      EXPECT_NE(status.to_string().find(part), std::string::npos)
          << part << " in " << status.to_string();
    }
  }
}

}  // namespace cohort::test
