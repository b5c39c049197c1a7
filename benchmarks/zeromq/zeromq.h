#pragma once

#include <memory>
#include <string>

namespace cohort::bench {

// What parameter servers on ZeroMQ are made of: a request with the bytes to add, over TCP, and a
// reply with the sum. The server is another process: this program with the words "zeromq-server"
// and an address.
class ZeroMq {
 public:
  ZeroMq(const std::string& program, size_t bytes);
  ~ZeroMq();
  void push_and_pull();

  static bool is_there();  // in this build

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[noreturn]] void serve_zeromq(const std::string& address);

}  // namespace cohort::bench
