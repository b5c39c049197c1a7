#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/compiled_run.h"
#include "runtime/executor.h"
#include "runtime/session_impl.h"

namespace cohort::internal {

// A session whose devices are this process's. State belongs to it: no other session sees it.
class LocalSession : public SessionImpl {
 public:
  LocalSession(std::shared_ptr<GraphImpl> graph, const SessionOptions& options);

  std::vector<std::string> list_devices() const override;
  void close() override;

 private:
  struct RunHandle;

  void check_open() const override;
  std::shared_ptr<const PreparedRun> make_run(const RunRequest& request,
                                              std::chrono::milliseconds limit) override;
  std::vector<Tensor> execute(const PreparedRun& run, const std::vector<Tensor>& values,
                              const RunOptions& options, RunMetadata* metadata) override;

  void check_open_locked() const;  // mutex_ is held
  std::shared_ptr<const CompiledRun> compile_run(const RunRequest& request);
  void place_new_nodes();

  const SessionOptions options_;
  const std::vector<DeviceName> devices_;
  std::map<std::string, ResourceTable> resources_;  // by device; fixed after construction

  mutable std::mutex mutex_;
  std::vector<DeviceName> placed_;  // guarded by mutex_, as all below
  std::map<int, std::shared_ptr<Cancellation>> running_;
  int next_run_ = 0;
  bool closed_ = false;
  std::condition_variable idle_;
  std::atomic<uint64_t> numbered_runs_{0};
};

}  // namespace cohort::internal
