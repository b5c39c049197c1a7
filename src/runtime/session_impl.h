#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cohort/session.h"
#include "runtime/compiled_run.h"
#include "runtime/executor.h"

namespace cohort::internal {

// A session whose devices are this process's.
class SessionImpl {
 public:
  SessionImpl(std::shared_ptr<GraphImpl> graph, const SessionOptions& options);

  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                          const RunOptions& options, RunMetadata* metadata);
  int make_callable(const std::vector<Tensor>& feeds, const std::vector<Tensor>& fetches);
  std::vector<Tensor> run_callable(int id, const std::vector<Tensor>& values);
  std::vector<std::string> list_devices() const;
  void close();

 private:
  struct RunHandle;
  struct CallableEntry {
    std::vector<Tensor> feeds;
    std::shared_ptr<const CompiledRun> compiled;
  };

  RunRequest request_for(const std::vector<Tensor>& fetches, const std::vector<Tensor>& fed) const;
  std::shared_ptr<const CompiledRun> compiled(const RunRequest& request);
  std::shared_ptr<const CompiledRun> compile_run(const RunRequest& request);
  void place_new_nodes();
  std::vector<Tensor> execute_run(const CompiledRun& run, const std::vector<Tensor>& values,
                                  std::chrono::milliseconds timeout, RunMetadata* metadata);

  const std::shared_ptr<GraphImpl> graph_;
  const SessionOptions options_;
  const std::vector<DeviceName> devices_;
  std::map<std::string, ResourceTable> resources_;  // by device; fixed after construction

  mutable std::mutex mutex_;
  std::vector<DeviceName> placed_;  // guarded by mutex_, as all below
  std::map<std::vector<Endpoint>, std::shared_ptr<const CompiledRun>> cache_;
  std::vector<CallableEntry> callables_;
  std::map<int, Cancellation*> running_;
  int next_run_ = 0;
  bool closed_ = false;
  std::condition_variable idle_;
};

}  // namespace cohort::internal
