#pragma once

#include <httplib.h>

#include <memory>
#include <string>
#include <thread>

namespace cohort {

// An HTTP server of this process on a port that the system chooses. Handlers are set before
// start().
class TestServer {
 public:
  explicit TestServer(std::unique_ptr<httplib::Server> server = std::make_unique<httplib::Server>())
      : server_(std::move(server)) {}
  ~TestServer() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  httplib::Server& operator*() { return *server_; }
  httplib::Server* operator->() { return server_.get(); }

  // Begins to answer; returns "127.0.0.1:port".
  std::string start() {
    const int port = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
    return "127.0.0.1:" + std::to_string(port);
  }

 private:
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

}  // namespace cohort
