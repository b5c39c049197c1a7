#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <vector>

#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace cohort::cli {

// Throws ResourceExhausted for an empty one.
internal::FileDescriptor checked_descriptor(internal::FileDescriptor fd);

// Calls a function for each watched file that can be read. One thread.
class Poller {
 public:
  void watch(int fd, std::function<void()> readable) { watched_[fd] = std::move(readable); }
  void forget(int fd) { watched_.erase(fd); }
  // Returns after the limit, or after the functions of all readable files were called.
  void wait(std::chrono::milliseconds limit);

 private:
  std::map<int, std::function<void()>> watched_;
};

// Calls that other threads post to the thread that polls. Posting is thread-safe.
class PostedCalls {
 public:
  PostedCalls() : event_(checked_descriptor(internal::make_event())) {}

  void post(std::function<void()> call);
  int file() const { return event_.get(); }  // readable while calls are waiting
  // Makes the posted calls, in order.
  void deliver();

 private:
  const internal::FileDescriptor event_;
  internal::Mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

// The signals of this process as a file to read, for as long as the object lives. Signals that this
// process was started to ignore, as by nohup, stay ignored. Make the object before any thread.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals);

  int file() const { return file_.get(); }
  // The next signal that came, or 0.
  int next();

 private:
  // Signals that come after the end stay blocked: the program is about to end.
  internal::FileDescriptor file_;
};

}  // namespace cohort::cli
