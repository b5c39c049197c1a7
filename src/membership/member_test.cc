#include "membership/member.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

Member worker(uint64_t id) {
  return {.peer = {.name = "/job:worker/replica:0/task:" + std::to_string(id),
                   .incarnation = 100 + id,
                   .address = "localhost:" + std::to_string(5000 + id),
                   .host = "a machine",
                   .build = "1.2.3"},
          .id = id,
          .workers = 2,
          .replicas = 3,
          .cluster = "two workers",
          .settings = "settings",
          .engine = "",
          .shares_memory = true,
          .process = "process " + std::to_string(id),
          .generation = id};
}

Peer peer_of(const Member& member) {
  Peer peer = member.peer;
  peer.settings = encode_settings(member);
  return peer;
}

TEST(Member, ArrivesInAHandshakeAsItWasSent) {
  const Member got = member_of(peer_of(worker(1)), worker(0));
  EXPECT_EQ(got.peer.name, worker(1).peer.name);
  EXPECT_EQ(got.peer.incarnation, 101u);
  EXPECT_EQ(got.peer.address, "localhost:5001");
  EXPECT_EQ(got.process, "process 1");
  EXPECT_TRUE(got.shares_memory);
  EXPECT_TRUE(got.resumes());
  EXPECT_TRUE(compare(worker(0), got).ok());
}

TEST(Member, OfAnotherProtocolIsRefusedWithBothBuilds) {
  Peer other = peer_of(worker(1));
  other.build = "9.9.9";
  other.settings[0] = 77;
  EXPECT_ERROR(Code::FailedPrecondition, "different builds of the library, 1.2.3 and 9.9.9",
               member_of(other, worker(0)));
  EXPECT_ERROR(Code::FailedPrecondition, "task:0 (process 0) and /job:worker/replica:0/task:1",
               member_of(other, worker(0)));
}

TEST(Member, OfAnotherProtocolAndTheSameVersionIsToldTheProtocols) {
  Peer other = peer_of(worker(1));
  other.settings[0] = 77;
  EXPECT_ERROR(
      Code::FailedPrecondition,
      "different builds of the library, 1.2.3 and 1.2.3, whose workers join by protocols 2 "
      "and 77; run the same release on all",
      member_of(other, worker(0)));
}

TEST(Member, WithATextThatIsTooLongIsRefused) {
  for (const auto text : {&Member::cluster, &Member::settings, &Member::engine, &Member::process}) {
    Member other = worker(1);
    other.*text = std::string(Member::kMaxText, 'x');
    EXPECT_EQ((member_of(peer_of(other), worker(0)).*text).size(), Member::kMaxText);
    other.*text += 'x';
    EXPECT_ERROR(Code::DataLoss, "a text of a worker is too long",
                 member_of(peer_of(other), worker(0)));
  }
}

// A text from outside could forge lines of a log, or control a terminal.
TEST(Member, WithTextsThatAreNotPrintableIsDescribedWithoutThem) {
  const std::string forged = "x\nERROR \x1b[31m";
  for (const auto text : {&Member::cluster, &Member::settings, &Member::engine, &Member::process}) {
    Member other = worker(1);
    other.*text = forged;
    other.replicas = 7;  // also if the text is not what differs
    const Status found = compare(worker(0), member_of(peer_of(other), worker(0)));
    EXPECT_EQ(found.code, Code::FailedPrecondition);
    for (const char c : found.message) EXPECT_GE(c, ' ') << found.message;
  }
  Member other = worker(1);
  other.engine = forged;
  EXPECT_NE(compare(worker(0), other).message.find("the other 'x?ERROR ?[31m'"), std::string::npos);
}

TEST(Member, WithSettingsThatAreCutOffIsRefused) {
  const Peer whole = peer_of(worker(0));
  for (size_t size = 0; size < whole.settings.size(); ++size) {
    Peer part = whole;
    part.settings.resize(size);
    EXPECT_ERROR(Code::DataLoss, "settings", member_of(part, worker(0)));
  }
}

TEST(Member, ComparisonNamesBothAndWhatDiffers) {
  const auto differ = [](Member& one, const std::string& what) {
    const Status status = compare(worker(0), one);
    EXPECT_EQ(status.code, Code::FailedPrecondition);
    for (const std::string& part : {std::string("task:0 (process 0)"), one.process, what}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
    one = worker(1);
  };
  Member other = worker(1);
  EXPECT_TRUE(compare(worker(0), other).ok());
  other.peer.build = "1.2.4";
  differ(other, "different builds of the library, 1.2.3 and 1.2.4");
  other.workers = 3;
  differ(other, "3 workers");
  other.cluster = "three workers";
  differ(other, "three workers");
  other.replicas = 1;
  differ(other, "3 replicas, the other 1");
  other.engine = "nccl";
  differ(other, "the engine '' for collectives, the other 'nccl'");
  other.settings = "others";
  differ(other, "made with settings, the other with others");
  other = worker(0);
  other.peer.incarnation = 5;
  other.process = "process 9";
  differ(other, "both are worker 0");
}

TEST(Member, LongTextsAreCutAndStillDiffer) {
  const std::string text(5000, 'x');
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_LT(shortened(text).size(), 1000u);
  EXPECT_NE(shortened(text + "a"), shortened(text + "b"));
}

TEST(WorkerList, HasTheChiefFirst) {
  const ClusterSpec cluster(std::map<std::string, TaskList>{
      {"worker", {"h1:1", "h2:1"}}, {"chief", {"h0:1"}}, {"ps", {"h9:1"}}});
  const WorkerList list = list_workers(cluster, "worker", 1);
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list.workers[0].name, "/job:chief/replica:0/task:0");
  EXPECT_EQ(list.workers[2].address, "h2:1");
  EXPECT_EQ(list.self, 2);
  EXPECT_FALSE(list.is_chief);
  EXPECT_TRUE(list.spans_hosts);
  EXPECT_TRUE(list_workers(cluster, "chief", 0).is_chief);
}

}  // namespace
}  // namespace cohort::internal
