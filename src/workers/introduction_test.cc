#include "workers/introduction.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "transport/status_message.h"
#include "workers/worker_list.h"

namespace cohort::internal {
namespace {

Introduction worker(uint64_t id) {
  return {.version = "1.2.3",
          .peer = {.name = "/job:worker/replica:0/task:" + std::to_string(id),
                   .incarnation = 100 + id,
                   .address = "localhost:" + std::to_string(5000 + id)},
          .id = id,
          .cluster = "two workers",
          .workers = 2,
          .replicas = 3,
          .settings = "settings",
          .host = "a machine",
          .process = "process " + std::to_string(id),
          .resumes = id == 1};
}

TEST(Introduction, ArrivesAsItWasSent) {
  const Message message = welcome({worker(0), worker(1)});
  MessageReader reader(message, "a welcome");
  EXPECT_EQ(read_kind(reader), IntroductionKind::Welcome);
  const std::vector<Introduction> all = read_welcome(reader);
  EXPECT_TRUE(reader.at_end());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].peer.name, worker(1).peer.name);
  EXPECT_EQ(all[1].peer.incarnation, 101u);
  EXPECT_EQ(all[1].peer.address, "localhost:5001");
  EXPECT_EQ(all[1].process, "process 1");
  EXPECT_TRUE(all[1].resumes);
  EXPECT_TRUE(compare(all[0], worker(0)).ok());
}

TEST(Introduction, OfAnotherProtocolIsRefused) {
  Message message;
  MessageWriter(message).number(77).number(0).text("whatever comes then");
  MessageReader reader(message, "an introduction");
  EXPECT_ERROR(Code::FailedPrecondition, "another build", read_kind(reader));
}

TEST(Introduction, ThatIsCutOffIsRefused) {
  const Message whole = hello(worker(0));
  for (size_t size = 0; size < whole.header.size(); ++size) {
    Message part;
    part.header = whole.header.substr(0, size);
    const Status status = capture_status([&] {
      MessageReader reader(part, "an introduction");
      read_kind(reader);
      read_introduction(reader);
    });
    EXPECT_EQ(status.code, Code::DataLoss) << size;
  }
}

TEST(Introduction, ComparisonNamesBothAndWhatDiffers) {
  const auto differ = [](Introduction& one, const std::string& what) {
    const Status status = compare(worker(0), one);
    EXPECT_EQ(status.code, Code::FailedPrecondition);
    for (const std::string& part : {std::string("task:0 (process 0)"), one.process, what}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  };
  Introduction other = worker(1);
  EXPECT_TRUE(compare(worker(0), other).ok());
  other.version = "1.2.4";
  differ(other, "different builds of the library, 1.2.3 and 1.2.4");
  other = worker(1);
  other.workers = 3;
  differ(other, "3 workers");
  other = worker(1);
  other.cluster = "three workers";
  differ(other, "three workers");
  other = worker(0);
  other.peer.incarnation = 5;
  other.process = "process 9";
  differ(other, "both are worker 0");
  other = worker(1);
  other.replicas = 1;
  differ(other, "3 replicas, the other 1");
  other = worker(1);
  other.settings = "others";
  differ(other, "made with settings, the other with others");
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
