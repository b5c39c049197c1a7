// Connections by gRPC beside gRPC itself: the same bytes over a bare stream of byte buffers, and
// its own unary round trip. The other side is a second process.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "bare_grpc.h"
#include "ratio.h"
#include "rpc/grpc_endpoint.h"

namespace {

using namespace cohort::internal;  // NOLINT: a program

constexpr size_t kLarge = cohort::bench::kStreamBytes;

// --- The other process: answers small messages with themselves, and large ones with a small one.

void answer(Connection& back, const Message& message) {
  back.send({message.payloads.empty() ? message.header : "answer"});
}

[[noreturn]] void serve(int out) {
  std::shared_ptr<Connection> kept;
  const auto endpoint =
      make_endpoint({.self = {.name = "/job:ps/replica:0/task:0", .address = "127.0.0.1:0"},
                     .transport = TransportKind::Grpc},
                    [&](std::shared_ptr<Connection> connection) {
                      Connection& back = *connection;
                      connection->start({[&back](const Message& message) { answer(back, message); },
                                         [](const cohort::Status&) {}});
                      kept = std::move(connection);
                    });
  int port = 0;
  const cohort::bench::BareGrpcServer server("127.0.0.1:0", &port);
  dprintf(out, "%s 127.0.0.1:%d\n", endpoint->self().address.c_str(), port);
  for (;;) pause();
}

// --- This process.

// Our connection, with somebody who waits for answers.
class Ours {
 public:
  explicit Ours(const std::string& address)
      : endpoint_(make_endpoint({.self = {.name = "client"}, .transport = TransportKind::Grpc})),
        connection_(endpoint_->connect(address, soon())) {
    connection_->start({[this](const Message&) { ++answers_; }, [](const cohort::Status&) {}});
  }
  void ask(Message message) {
    const int before = answers_;
    connection_->send(std::move(message));
    if (!connection_->deliver_until([&] { return answers_ > before; }, soon())) {
      throw std::runtime_error("no answer");
    }
  }

 private:
  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

  int answers_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  std::shared_ptr<Connection> connection_;
};

void compare(const std::string& our_address, const std::string& bare_address) {
  Ours ours(our_address);
  cohort::bench::BareGrpcClient bare(bare_address);
  cohort::bench::run({.name = "round trip of a small message",
                      .ours = [&] { ours.ask({"question"}); },
                      .theirs = [&] { bare.round_trip(); },
                      .calls = 200,
                      .rounds = 21,
                      .limit = 1.1});
  const auto memory = std::make_shared<std::vector<std::byte>>(kLarge, std::byte{1});
  const Buffer large{.bytes = *memory, .owner = memory};
  const double ratio = cohort::bench::run({.name = "64 MB, one way",
                                           .ours =
                                               [&] {
                                                 ours.ask({"large", {large}});
                                               },
                                           .theirs = [&] { bare.send_large(); },
                                           .rounds = 21,
                                           .limit = 1 / 0.8});
  std::printf("  bandwidth of a bare stream that is reached: %.2f\n", 1 / ratio);
}

}  // namespace

int main() {
  int said[2];
  if (pipe(said) != 0) return 1;
  // Before gRPC or any thread is there.
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(said[1]);
  }
  char our_address[100];
  char bare_address[100];
  FILE* const text = fdopen(said[0], "r");
  if (std::fscanf(text, "%99s %99s", our_address, bare_address) != 2) return 1;
  compare(our_address, bare_address);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}
