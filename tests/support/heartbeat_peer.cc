// A task for heartbeat_test: listens, prints its address and incarnation, and stays until it is
// killed or its standard input ends.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rpc/make_endpoint.h"

int main(int argc, char** argv) {
  using namespace cohort::internal;
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:0";
  std::vector<std::shared_ptr<Connection>> kept;
  const auto endpoint = make_endpoint(
      {.self = {.name = "/job:ps/replica:0/task:0",
                .incarnation = static_cast<uint64_t>(getpid()),
                .address = address},
       .transport = TransportKind::Grpc},
      [&](const std::shared_ptr<Connection>& connection) { kept.push_back(connection); });
  std::printf("%s %d\n", endpoint->self().address.c_str(), getpid());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}
