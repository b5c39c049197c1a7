#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

// Those who connect to a port and do not mean it.
namespace cohort::test {

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

inline std::string random_bytes(std::mt19937_64& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Of HTTP/2: length, type, flags, stream, content.
inline std::string frame(uint32_t length, char type, char flags, uint32_t stream,
                         const std::string& content) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(length >> shift));
  bytes.push_back(type);
  bytes.push_back(flags);
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(stream >> shift));
  return bytes + content;
}

// What scanners and other programs say to a port.
inline std::vector<std::string> banners() {
  using std::string_literals::operator""s;
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
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s,  // the beginning of a TLS handshake
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

}  // namespace cohort::test
