// Connections beside what they are made of: a round trip beside two threads that hand a word to
// each other, and large messages beside memcpy.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "ratio.h"
#include "transport/in_process.h"
#include "transport/shared_memory.h"

namespace {

using namespace cohort;            // NOLINT: a program
using namespace cohort::internal;  // NOLINT

Deadline in_seconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// Two threads that hand a word to each other, looking for it a while before they sleep.
class PlainPing {
 public:
  PlainPing() : other_([this] { answer(); }) {}
  ~PlainPing() {
    word_ = kStop;
    word_.notify_all();
    other_.join();
  }
  void round_trip() {
    word_ = 1;
    word_.notify_all();
    await_other_than(1);
  }

 private:
  static constexpr int kStop = 2;
  int await_other_than(int old) {
    for (int look = 0; look < 20000; ++look) {
      if (const int now = word_.load(); now != old) return now;
    }
    word_.wait(old);
    return word_.load();
  }
  void answer() {
    for (;;) {
      if (await_other_than(0) == kStop) return;
      word_ = 0;
      word_.notify_all();
    }
  }
  std::atomic<int> word_ = 0;
  std::thread other_;
};

// The near end of a connection whose far end sends everything back.
class Echo {
 public:
  explicit Echo(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {
    connection_->start({[this](const Message&) { ++answers_; }, [](const Status&) {}});
  }
  void round_trip(const Message& message) {
    const uint64_t wanted = answers_ + 1;
    connection_->send(message);
    connection_->deliver_until([&] { return answers_ >= wanted; }, in_seconds(30));
  }

 private:
  std::atomic<uint64_t> answers_ = 0;
  std::shared_ptr<Connection> connection_;
};

void send_back(Connection& connection) {
  connection.start(
      {[&](Message message) { connection.send(std::move(message)); }, [](const Status&) {}});
}

Message message_with(size_t payloads, size_t bytes) {
  Message message{"x"};
  for (size_t i = 0; i < payloads; ++i) {
    auto memory = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
    message.payloads.push_back({*memory, memory});
  }
  return message;
}

void bench(const std::string& way, Echo& echo) {
  const Message null = message_with(0, 0);
  {
    PlainPing plain;
    bench::run({.name = way + ": round trip | plain threads",
                .ours = [&] { echo.round_trip(null); },
                .theirs = [&] { plain.round_trip(); },
                .calls = 1000,
                .limit = 20});
  }
  const Message hundred = message_with(100, 4096);
  bench::run({.name = way + ": 100 times 4 KB each way | null",
              .ours = [&] { echo.round_trip(hundred); },
              .theirs = [&] { echo.round_trip(null); },
              .calls = 200,
              .limit = 15});
  for (const size_t megabytes : {1, 16, 64}) {
    const Message large = message_with(1, megabytes << 20);
    std::vector<std::byte> copy(megabytes << 20);
    bench::run({.name = way + ": " + std::to_string(megabytes) + " MB each way | memcpy",
                .ours = [&] { echo.round_trip(large); },
                .theirs =
                    [&] {
                      for (int i = 0; i < 2; ++i) {
                        std::memcpy(copy.data(), large.payloads[0].bytes.data(), copy.size());
                      }
                    },
                .calls = static_cast<int>(64 / megabytes),
                .limit = 1 / 0.6});
  }
}

struct Address {
  char name[64] = {};
  char nonce[64] = {};
};

// Gets the address over a pipe, as its parent can not know it before.
void run_far_process(int from_parent) {
  Address address;
  if (::read(from_parent, &address, sizeof(address)) != sizeof(address)) return;
  const auto connection = connect_shared_memory(address.name, address.nonce, {.name = "far"},
                                                {.name = "near"}, in_seconds(10));
  std::promise<void> ended;
  connection->start({[&](Message message) { connection->send(std::move(message)); },
                     [&](const Status&) { ended.set_value(); }});
  ended.get_future().get();
}

void bench_shared_memory(int to_child) {
  SharedMemoryListener listener;
  std::promise<std::shared_ptr<Connection>> arrived;
  const std::string nonce =
      listener.expect({.name = "near"}, {.name = "far"}, in_seconds(10),
                      [&](auto connection) { arrived.set_value(std::move(connection)); });
  Address address;
  listener.name().copy(address.name, sizeof(address.name) - 1);
  nonce.copy(address.nonce, sizeof(address.nonce) - 1);
  if (::write(to_child, &address, sizeof(address)) != sizeof(address)) return;
  Echo echo(arrived.get_future().get());
  bench("shared memory", echo);
}

void bench_in_process() {
  auto [near, far] = connect_in_process({.name = "near"}, {.name = "far"});
  send_back(*far);
  Echo echo(near);
  bench("in process", echo);
}

}  // namespace

int main() {
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();  // before there are threads
  if (child == 0) {
    run_far_process(ends[0]);
    ::_exit(0);
  }
  bench_shared_memory(ends[1]);
  ::waitpid(child, nullptr, 0);
  bench_in_process();
}
