#pragma once

#include <atomic>
#include <map>
#include <string>

#include "base/mutex.h"
#include "ops/run_context.h"

namespace cohort::internal {

// The state on the devices of a task, or of one session there. Thread-safe.
class DeviceState {
 public:
  // `device` is a name within the task: "CPU:0".
  ResourceTable& of(const std::string& device) {
    const std::lock_guard lock(mutex_);
    return tables_[device];
  }

  void clear(const std::string& container) {
    const std::lock_guard lock(mutex_);
    for (auto& [device, table] : tables_) table.clear(container);
    ++clears_;  // afterwards: who finds something before that notes the old number
  }
  // How often something was forgotten.
  const std::atomic<uint64_t>& clears() const { return clears_; }

 private:
  std::atomic<uint64_t> clears_ = 0;
  Mutex mutex_;
  std::map<std::string, ResourceTable> tables_;  // guarded by mutex_
};

}  // namespace cohort::internal
