#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace cohort::internal {

// A thread with a name, which debuggers, `top -H` and the log show; the system keeps 15 characters
// of the name. Destroying or overwriting a Thread asks its body to stop, through the stop token,
// and waits for its end. An exception that leaves the body is logged, and ends only this thread.
class Thread {
 public:
  using Body = std::function<void(const std::stop_token& stop)>;

  Thread() = default;
  // Throws ResourceExhausted if the system cannot start another thread.
  Thread(std::string name, Body body);

  bool joinable() const { return thread_.joinable(); }
  void request_stop() { thread_.request_stop(); }
  // Waits for the end of the body, if the Thread has one.
  void join();
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  // Lets the body run to its end alone, for a thread that destroys its own Thread.
  void detach() { thread_.detach(); }

 private:
  std::jthread thread_;
};

// The name of the calling thread: "main" for the first thread, the system's number for a thread
// without a name.
std::string_view thread_name();

}  // namespace cohort::internal
