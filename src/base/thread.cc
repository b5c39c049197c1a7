#include "base/thread.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxName = 15;

// Not a string: an array has no destructor, so destructors at the end of a thread may still log.
thread_local std::array<char, kMaxName + 1> this_name{};

void set_name(std::string_view name) {
  this_name = {};
  name.copy(this_name.data(), kMaxName);
  pthread_setname_np(pthread_self(), this_name.data());
}

void run(const Thread::Body& body, const std::stop_token& stop) {
  const Status status = capture_status([&] { body(stop); });
  if (!status.ok()) log_error("[Thread] the thread ends because of {}", status.to_string());
}

}  // namespace

Thread::Thread(std::string name, Body body) try
    : thread_([name = std::move(name), body = std::move(body)](const std::stop_token& stop) {
        set_name(name);
        run(body, stop);
      }) {
} catch (const std::system_error& error) {
  raise(Code::ResourceExhausted, "[Thread] the system cannot start another thread: {}",
        error.what());
}

void Thread::join() {
  if (thread_.joinable()) thread_.join();
}

std::string_view thread_name() {
  if (this_name[0] == '\0') {
    const std::string name = gettid() == getpid() ? "main" : std::to_string(gettid());
    name.copy(this_name.data(), kMaxName);
  }
  return this_name.data();
}

}  // namespace cohort::internal
