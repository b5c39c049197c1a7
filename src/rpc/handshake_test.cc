#include "rpc/handshake.h"

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

Handshake sample_handshake() {
  return {.peer = {.name = "/job:worker/replica:0/task:1",
                   .incarnation = 77,
                   .address = "host:2222",
                   .cluster = 5,
                   .host = "boot and namespace",
                   .build = "1.2.3",
                   .generation = 4,
                   .settings = std::string("\0\xff settings", 11)},
          .shares_memory = true,
          .memory_socket = "socket",
          .memory_nonce = std::string("\0\xff nonce", 8)};
}

TEST(Handshake, ComesOutAsItWentIn) {
  const Handshake sent = sample_handshake();
  const Handshake got = decode_handshake(encode(sent), "self");
  EXPECT_EQ(got.protocol, kProtocolVersion);
  EXPECT_EQ(got.peer.name, sent.peer.name);
  EXPECT_EQ(got.peer.incarnation, sent.peer.incarnation);
  EXPECT_EQ(got.peer.address, sent.peer.address);
  EXPECT_EQ(got.peer.cluster, sent.peer.cluster);
  EXPECT_EQ(got.peer.host, sent.peer.host);
  EXPECT_EQ(got.peer.build, sent.peer.build);
  EXPECT_EQ(got.peer.generation, sent.peer.generation);
  EXPECT_EQ(got.peer.settings, sent.peer.settings);
  EXPECT_TRUE(got.shares_memory);
  EXPECT_EQ(got.memory_socket, sent.memory_socket);
  EXPECT_EQ(got.memory_nonce, sent.memory_nonce);
}

TEST(Handshake, NonsenseIsRefused) {
  EXPECT_ERROR(Code::InvalidArgument, "not a handshake", decode_handshake("\xff\xff\xff", "self"));
  EXPECT_ERROR(Code::InvalidArgument, "not a handshake",
               decode_handshake(std::string(10'000, 'x'), "task 7"));
  Handshake handshake = sample_handshake();
  handshake.peer.name = std::string(600, 'x');
  EXPECT_ERROR(Code::InvalidArgument, "the name is not a printable",
               decode_handshake(encode(handshake), "task 7"));
  handshake = sample_handshake();
  handshake.peer.address = "host\x1b[31m";
  EXPECT_ERROR(Code::InvalidArgument, "the address is not a printable",
               decode_handshake(encode(handshake), "task 7"));
}

TEST(Handshake, NonsenseIsRefusedInTheNamesOfBothSides) {
  EXPECT_ERROR(Code::InvalidArgument,
               "task 7 expects a handshake of at most 4096 bytes, and the 10000 bytes",
               decode_handshake(std::string(10'000, 'x'), "task 7"));
  Handshake handshake = sample_handshake();
  handshake.peer.address = "host\x1b[31m";
  EXPECT_ERROR(
      Code::InvalidArgument,
      "'/job:worker/replica:0/task:1' connects with task 7, and the address is not a printable "
      "text of at most 512 characters, but 'host?[31m' of 9 characters; run the same release",
      decode_handshake(encode(handshake), "task 7"));
}

TEST(Handshake, FitsToTheSameClusterAndProtocolOnly) {
  const Handshake self = sample_handshake();
  check_handshake(self, self);
  Handshake other = self;
  other.peer.cluster = 0;
  check_handshake(other, self);
  check_handshake(self, other);
  other.peer.cluster = 6;
  EXPECT_ERROR(Code::FailedPrecondition, "the same cluster specification",
               check_handshake(other, self));
  other = self;
  other.protocol = 0;
  other.peer.build = "0.9";
  EXPECT_ERROR(Code::FailedPrecondition, "(build 0.9)", check_handshake(other, self));
  EXPECT_ERROR(Code::FailedPrecondition, "(build 1.2.3)", check_handshake(other, self));
}

}  // namespace
}  // namespace cohort::internal
