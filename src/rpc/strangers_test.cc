// Whatever strangers send to the port, the server goes on.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "rpc/endpoint.h"
#include "rpc/run_authority.h"
#include "rpc/wire_names.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

using std::string_literals::operator""s;

// A connection without any protocol.
class RawSocket {
 public:
  explicit RawSocket(int port) : file_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ADD_FAILURE() << "nobody listens any more";
    }
  }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  ~RawSocket() { close(file_); }

  void send(std::string_view bytes) const {
    (void)::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Waits a little for an answer, so that the server has read what was sent.
  void await_answer() const {
    pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
    poll(&waiting, 1, 20);
  }
  void half_close() const { shutdown(file_, SHUT_WR); }
  // Its end will be a reset, not a farewell.
  void make_rude() const {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(file_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  int file_;
};

std::string random_bytes(std::mt19937_64& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Of HTTP/2: length, type, flags, stream, content.
std::string frame(uint32_t length, char type, char flags, uint32_t stream,
                  const std::string& content) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(length >> shift));
  bytes.push_back(type);
  bytes.push_back(flags);
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(stream >> shift));
  return bytes + content;
}

std::vector<std::string> banners() {
  const std::string settings = frame(0, 4, 0, 0, "");
  return {
      "",
      "\r\n\r\n",
      "GET / HTTP/1.0\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /cohort.proto.Task/Connect HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
      "OPTIONS / RTSP/1.0\r\n\r\n",
      "HELP\r\n",
      "EHLO nmap\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
      "*1\r\n$4\r\nPING\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s,  // the beginning of a TLS greeting
      "\x16\x03\x01\xff\xff"s + std::string(70000, 'A'),
      "\x80\x9e\x01\x03\x01\x00u\x00\x00\x00 "s,  // SSLv2
      "\x00\x00\x00\xa4\xff"
      "SMB"s,
      "\x03\x00\x00\x0b\x06\xe0\x00\x00\x00\x00\x00"s,  // remote desktop
      std::string(1 << 20, '\0'),
      std::string(1 << 20, '\xff'),
      kPreface,
      std::string(kPreface, 10),
      kPreface + std::string(100, '\xff'),
      kPreface + settings + frame(0xffffff, 0, 0, 1, ""),  // a frame of 16 MB that never comes
      kPreface + settings + frame(4, 1, 4, 1, "\xff\xff\xff\xff"),  // headers that are none
      kPreface + settings + frame(1, 1, 4, 0, "\x82"),              // headers of no stream
      kPreface + settings + frame(4, 8, 0, 0, std::string(4, '\0')),
      kPreface + frame(6, 4, 0, 0, std::string("\x00\x05\xff\xff\xff\xff", 6)),
      kPreface + settings + frame(8, 6, 0, 0, "12345678") + frame(7, 6, 0, 0, "1234567"),
      kPreface + settings + frame(0, 9, 4, 1, ""),  // the continuation of nothing
      kPreface + settings + frame(4, 3, 0, 7, std::string(4, '\1')),
      kPreface + settings + frame(5, 99, 0, 1, "hello"),  // a kind of frame that is none
      "{\"cluster\": 1}",
  };
}

class Strangers : public testing::TestWithParam<bool> {
 protected:
  Strangers()
      : server_(make_endpoint(options("/job:ps/replica:0/task:0", "127.0.0.1:0"),
                              [this](std::shared_ptr<Connection> connection) {
                                Connection& back = *connection;
                                connection->start(
                                    {[&back](Message message) { back.send(std::move(message)); },
                                     [](const Status&) {}});
                                ++accepted_;
                                const std::lock_guard lock(mutex_);
                                connections_.push_back(std::move(connection));
                              })),
        port_(parse_address(server_->self().address).port),
        client_(make_endpoint(options("client", ""))),
        friend_(client_->connect(server_->self().address, MessageLog::soon())) {
    friend_->start(log_.events());
  }
  ~Strangers() override {
    friend_.reset();
    client_->stop();
    server_->stop();
  }

  EndpointOptions options(const std::string& name, const std::string& address) const {
    return {.self = {.name = name, .address = address},
            .credentials = GetParam() ? authority_.issue({.name = name}) : Credentials{},
            .way = Way::Grpc};
  }

  // The connection that was there goes on, and new ones are let in.
  void expect_alive() {
    friend_->send({"still there?"});
    EXPECT_TRUE(log_.await(1));
    log_.take();
    const auto another = make_endpoint(options("client", ""));
    another->connect(server_->self().address, MessageLog::soon());
  }

  const RunAuthority authority_;
  std::atomic<int> accepted_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_;
  MessageLog log_;
  std::unique_ptr<Party> server_;
  const int port_;
  std::unique_ptr<Party> client_;
  std::shared_ptr<Connection> friend_;
};

TEST_P(Strangers, SayAnything) {
  for (const std::string& banner : banners()) {
    const RawSocket polite(port_);
    polite.send(banner);
    polite.await_answer();
    const RawSocket half(port_);
    half.send(banner);
    half.half_close();
    const RawSocket rude(port_);
    rude.send(banner);
    rude.make_rude();
  }
  expect_alive();
  EXPECT_EQ(accepted_, 2);
}

TEST_P(Strangers, SayRandomBytes) {
  std::mt19937_64 random(4711);
  for (int i = 0; i < 100; ++i) {
    const RawSocket stranger(port_);
    stranger.send(i % 2 == 0 ? random_bytes(random, random() % 5000)
                             : kPreface + random_bytes(random, random() % 300));
    if (i % 10 == 0) stranger.await_answer();
  }
  expect_alive();
  EXPECT_EQ(accepted_, 2);
}

TEST_P(Strangers, ConnectAndResetAThousandTimes) {
  for (int i = 0; i < 1000; ++i) RawSocket(port_).make_rude();
  expect_alive();
}

// While they dawdle, others are served.
TEST_P(Strangers, DawdleOneByteAtATime) {
  std::vector<std::unique_ptr<RawSocket>> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(std::make_unique<RawSocket>(port_));
  for (const char byte : std::string_view(kPreface).substr(0, 5)) {
    for (const auto& stranger : slow) stranger->send({&byte, 1});
    expect_alive();
  }
}

INSTANTIATE_TEST_SUITE_P(AtAPort, Strangers, testing::Bool(), [](const auto& chosen) {
  return chosen.param ? std::string("WithTls") : std::string("WithoutTls");
});

}  // namespace
}  // namespace cohort::internal
