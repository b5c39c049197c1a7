#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace cohort::test {

// A port of this host that passes connections on to another one, and can hold or cut the network.
class Relay {
 public:
  // Held: the relay accepts connections, but nothing passes on them before release().
  enum class Start { Open, Held };
  explicit Relay(int port, Start start = Start::Open)
      : port_(port),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        held_(start == Start::Held) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_, SOMAXCONN) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    address_ = "localhost:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Relay() {
    thread_ = {};
    close(listener_);
    for (const Pair& pair : pairs_) {
      close(pair.ends[0]);
      close(pair.ends[1]);
    }
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }
  // How many connections the relay has accepted.
  int accepted() const { return accepted_; }
  void release() { held_ = false; }
  // From here on nothing passes on the connections that exist, and none of them ends; later
  // connections work.
  void cut() {
    cut_ = true;
    while (cut_) std::this_thread::yield();
  }

 private:
  struct Pair {
    std::array<int, 2> ends;
    bool open = true;
  };

  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const bool held = held_;
      std::vector<pollfd> waiting{{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const Pair& pair : pairs_) {
        for (const int end : pair.ends) {
          waiting.push_back({.fd = pair.open && !held ? end : -1, .events = POLLIN, .revents = 0});
        }
      }
      poll(waiting.data(), waiting.size(), 5);
      if (cut_.exchange(false)) {
        for (Pair& pair : pairs_) pair.open = false;
        continue;
      }
      for (size_t i = 0; i < pairs_.size(); ++i) {
        for (size_t from = 0; from < 2; ++from) {
          if (waiting[1 + 2 * i + from].revents != 0) pass_on(pairs_[i], from);
        }
      }
      if (waiting[0].revents != 0) admit();
    }
  }

  void admit() {
    const int visitor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int onward = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port_);
    if (visitor < 0 || onward < 0 ||
        connect(onward, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      std::abort();
    }
    pairs_.push_back({.ends = {visitor, onward}});
    ++accepted_;
  }

  static void pass_on(Pair& pair, size_t from) {
    std::array<char, 65536> bytes;
    const ssize_t count = recv(pair.ends[from], bytes.data(), bytes.size(), 0);
    if (count <= 0) {
      shutdown(pair.ends[1 - from], SHUT_RDWR);
      pair.open = false;
      return;
    }
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t more = send(pair.ends[1 - from], bytes.data() + sent,
                                static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += more;
    }
  }

  const int port_;
  const int listener_;
  std::string address_;
  std::atomic<bool> held_;
  std::atomic<int> accepted_ = 0;
  std::atomic<bool> cut_ = false;
  std::vector<Pair> pairs_;  // of the thread
  std::jthread thread_;
};

}  // namespace cohort::test
