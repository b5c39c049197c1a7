#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "base/file_descriptor.h"

namespace cohort::cli {

// Brings what other threads have to say to the thread that polls. Posting is thread-safe.
class Mailbox {
 public:
  Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void post(std::function<void()> what);
  int file() const { return event_.get(); }  // readable while something is there
  // Calls what was posted, in its order.
  void deliver();

 private:
  const internal::FileDescriptor event_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace cohort::cli
