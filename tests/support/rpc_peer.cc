// A task for the tests of connections by gRPC: listens at the address of the first argument, and
// prints its address and incarnation. Stays until it is killed or its standard input ends. With the
// second argument "leave", it answers the first message with 40 messages and ends.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "rpc/grpc_endpoint.h"

int main(int argc, char** argv) {
  using namespace cohort::internal;
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:0";
  const bool leaves = argc > 2 && std::string(argv[2]) == "leave";
  std::vector<std::shared_ptr<Connection>> kept;
  std::promise<void> asked;
  const auto endpoint =
      make_endpoint({.self = {.name = "/job:ps/replica:0/task:0",
                              .incarnation = static_cast<uint64_t>(getpid()),
                              .address = address},
                     .transport = TransportKind::Grpc},
                    [&](const std::shared_ptr<Connection>& connection) {
                      kept.push_back(connection);
                      if (!leaves) return;
                      connection->start({[&](const Message&) { asked.set_value(); },
                                         [](const cohort::Status&) {}});
                    });
  std::printf("%s %d\n", endpoint->self().address.c_str(), getpid());
  std::fflush(stdout);
  if (leaves) {
    asked.get_future().wait();
    for (int i = 0; i < 40; ++i) kept[0]->send({std::string(1000, 'x')});
    return 0;
  }
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}
