#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace cohort::internal {

// A thread with a name, which debuggers, `top -H` and the log show; the system keeps 15 characters
// of it. Destroying or overwriting a Thread asks its body to stop, through the stop token, and
// waits for it. An exception that leaves the body is logged, and ends this thread only.
class Thread {
 public:
  using Body = std::function<void(const std::stop_token& stop)>;

  Thread() = default;
  // Throws ResourceExhausted when the system has no thread to give.
  Thread(std::string name, Body body);

  bool joinable() const { return thread_.joinable(); }
  void request_stop() { thread_.request_stop(); }
  // Waits for the end of the body. Does nothing when there is none.
  void join();
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  // Lets the body run to its end by itself: for a thread that destroys its own Thread.
  void detach() { thread_.detach(); }

 private:
  std::jthread thread_;
};

// The calling thread's name: "main" for the first one, the system's number where nobody named it.
std::string_view thread_name();

}  // namespace cohort::internal
