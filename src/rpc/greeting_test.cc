#include "rpc/greeting.h"

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

Greeting sample_greeting() {
  return {
      .peer = {.name = "/job:worker/replica:0/task:1", .incarnation = 77, .address = "host:2222"},
      .cluster = 5,
      .host = "boot and namespace",
      .memory_socket = "socket",
      .memory_nonce = std::string("\0\xff nonce", 8)};
}

TEST(Greeting, ComesOutAsItWentIn) {
  const Greeting sent = sample_greeting();
  const Greeting got = decode_greeting(encode(sent));
  EXPECT_EQ(got.protocol, kProtocolVersion);
  EXPECT_EQ(got.peer.name, sent.peer.name);
  EXPECT_EQ(got.peer.incarnation, sent.peer.incarnation);
  EXPECT_EQ(got.peer.address, sent.peer.address);
  EXPECT_EQ(got.cluster, sent.cluster);
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.memory_socket, sent.memory_socket);
  EXPECT_EQ(got.memory_nonce, sent.memory_nonce);
}

TEST(Greeting, NonsenseIsRefused) {
  EXPECT_ERROR(Code::InvalidArgument, "no greeting", decode_greeting("\xff\xff\xff"));
  EXPECT_ERROR(Code::InvalidArgument, "no greeting", decode_greeting(std::string(10'000, 'x')));
  Greeting greeting = sample_greeting();
  greeting.peer.name = std::string(600, 'x');
  EXPECT_ERROR(Code::InvalidArgument, "the name is no printable",
               decode_greeting(encode(greeting)));
  greeting = sample_greeting();
  greeting.peer.address = "host\x1b[31m";
  EXPECT_ERROR(Code::InvalidArgument, "the address is no printable",
               decode_greeting(encode(greeting)));
}

TEST(Greeting, FitsToTheSameClusterAndProtocolOnly) {
  const Greeting self = sample_greeting();
  check_greeting(self, self);
  Greeting other = self;
  other.cluster = 0;
  check_greeting(other, self);
  check_greeting(self, other);
  other.cluster = 6;
  EXPECT_ERROR(Code::FailedPrecondition, "the same cluster specification",
               check_greeting(other, self));
  other = self;
  other.protocol = 0;
  EXPECT_ERROR(Code::FailedPrecondition, "the same release", check_greeting(other, self));
}

}  // namespace
}  // namespace cohort::internal
