#include "steady/holdings.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <filesystem>

#include "support/eventually.h"
#include "support/free_ports.h"

namespace cohort::test {
namespace {

int64_t entries_in(const char* directory) {
  const std::filesystem::directory_iterator first(directory);
  return std::distance(first, std::filesystem::directory_iterator());
}

int64_t allowed(const std::string& name, int64_t more_bytes) {
  static const Holdings more{
      {"descriptors", 4}, {"threads", 4}, {"plans", 8}, {"handles", 4}, {"nodes", 0}};
  return name == "bytes" ? more_bytes : more.at(name);
}

bool is_flat(const Holdings& before, const Holdings& after, int64_t more_bytes) {
  for (const auto& [name, count] : after) {
    if (count - before.at(name) > allowed(name, more_bytes)) return false;
  }
  return true;
}

}  // namespace

Holdings process_holdings() {
  const struct mallinfo2 heap = mallinfo2();
  return {{"bytes", static_cast<int64_t>(heap.uordblks + heap.hblkhd)},
          {"descriptors", entries_in("/proc/self/fd") - held_ports},
          {"threads", entries_in("/proc/self/task")}};
}

int calls(int otherwise) {
  const char* const text = std::getenv("COHORT_CALLS");
  return text != nullptr ? std::atoi(text) : otherwise;
}

int64_t session_handles(const Server& server) {
  const ServerStatus status = server.status();
  return static_cast<int64_t>(status.sessions.size() + status.worker_sessions);
}

int all_calls(int count) { return count + count / 4 + 10; }

void drive(const std::string& what, int count, const std::function<Holdings()>& measure,
           const std::function<void(int)>& call, int64_t more_bytes) {
  SCOPED_TRACE(what);
  const int warm_up = all_calls(count) - count;
  for (int i = 0; i < warm_up; ++i) call(i);
  const Holdings before = measure();
  for (int i = 0; i < count; ++i) call(warm_up + i);
  // A server notices that a client has gone a moment after it went.
  if (eventually([&] { return is_flat(before, measure(), more_bytes); }, std::chrono::seconds(5))) {
    return;
  }
  for (const auto& [name, now] : measure()) {
    EXPECT_LE(now - before.at(name), allowed(name, more_bytes)) << name << " of " << what;
  }
}

}  // namespace cohort::test
