// The other end of a shared-memory connection, to be killed: connects as it is told, then answers
// every message with itself. "flood": sends without end instead. "deaf": takes nothing.

#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "transport/shared_memory.h"

namespace {

using namespace cohort;            // NOLINT: a program
using namespace cohort::internal;  // NOLINT

Deadline in_seconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

void flood(Connection& connection) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(size_t{1} << 20, std::byte{7});
  for (;;) connection.send({"flood", {{*bytes, bytes}}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const auto connection = connect_shared_memory(arguments[1], arguments[2], {.name = "child"},
                                                {.name = "parent"}, in_seconds(20));
  const std::string_view mode = arguments[3];
  connection->send({"ready"});
  if (mode == "deaf") std::this_thread::sleep_until(in_seconds(60));
  bool ended = false;
  connection->start({[&](Message message) { connection->send(std::move(message)); },
                     [&](const Status&) { ended = true; }});
  if (mode == "flood") flood(*connection);
  (void)capture_status([&] { connection->deliver_until([&] { return ended; }, in_seconds(60)); });
  return 0;
}
