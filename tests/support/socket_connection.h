#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "base/aligned_memory.h"
#include "base/raise.h"
#include "transport/in_process.h"

namespace cohort {

// A connection between processes for tests and benchmarks: messages over a connected socket, which
// ends when the other process does.
class SocketConnection : public internal::Connection {
 public:
  SocketConnection(int socket, internal::Peer peer)
      : socket_(socket),
        peer_(std::move(peer)),
        queue_(std::make_shared<internal::MessageQueue>()),
        delivery_("socket", queue_),
        reader_([this] { read_all(); }) {}
  ~SocketConnection() override {
    SocketConnection::close({});
    reader_.join();
    ::close(socket_);
  }

  void start(Events events) override { delivery_.start(std::move(events)); }

  void send(internal::Message message) override {
    const std::lock_guard lock(sending_);
    std::string frame;
    append(frame, message.header.size());
    append(frame, message.payloads.size());
    for (const internal::Buffer& payload : message.payloads) append(frame, payload.bytes.size());
    frame += message.header;
    write(frame.data(), frame.size());
    for (const internal::Buffer& payload : message.payloads) {
      write(payload.bytes.data(), payload.bytes.size());
    }
  }

  void post(internal::Message message) override { send(std::move(message)); }

  bool deliver_until(const std::function<bool()>& done, internal::Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }
  void close(const Status&) override { shutdown(socket_, SHUT_RDWR); }
  const internal::Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "socket"; }
  internal::Traffic traffic() const override { return {}; }

 private:
  static void append(std::string& frame, uint64_t number) {
    frame.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  void write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t sent = ::send(socket_, at, bytes, MSG_NOSIGNAL);
      if (sent <= 0) internal::raise(Code::Unavailable, "[Socket] {} is gone", peer_.name);
      at += sent;
      bytes -= static_cast<size_t>(sent);
    }
  }

  bool read(void* data, size_t bytes) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t got = ::recv(socket_, at, bytes, 0);
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  bool read_one() {
    uint64_t sizes[2];
    if (!read(sizes, sizeof(sizes))) return false;
    std::vector<uint64_t> lengths(sizes[1]);
    internal::Message message;
    message.header.resize(sizes[0]);
    if (!read(lengths.data(), lengths.size() * sizeof(uint64_t)) ||
        !read(message.header.data(), message.header.size())) {
      return false;
    }
    for (const uint64_t length : lengths) {
      const std::shared_ptr<std::byte> memory = internal::allocate_aligned(length);
      if (!read(memory.get(), length)) return false;
      message.payloads.push_back({{memory.get(), length}, memory});
    }
    queue_->push(std::move(message), internal::WhenFull::Grow);
    return true;
  }

  void read_all() {
    while (read_one()) {
    }
    const Status gone{.code = Code::Unavailable, .message = "[Socket] " + peer_.name + " is gone"};
    queue_->end(gone, gone);
  }

  const int socket_;
  const internal::Peer peer_;
  const std::shared_ptr<internal::MessageQueue> queue_;
  internal::Delivery delivery_;
  std::mutex sending_;
  std::thread reader_;
};

}  // namespace cohort
