// Strangers at every port of a cluster, while a job runs.

#include "support/strangers.h"

#include <atomic>
#include <memory>

#include "cohort/cohort.h"
#include "faults/faults.h"
#include "support/process_cluster.h"
#include "topology/address.h"

namespace cohort {
namespace {

using test::RawSocket;

// Runs steps on its own thread until it ends.
class Job {
 public:
  explicit Job(const std::string& target) : thread_([this, target] { outcome_ = work(target); }) {}
  ~Job() { (void)stop(); }

  int64_t steps() const { return steps_; }
  Status stop() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  Status work(const std::string& target) {
    return capture_status([&] {
      Graph graph;
      const auto building = graph.as_default();
      const Tensor x = placeholder(kFloat32, {});
      auto on = device("/job:ps/task:0");
      Tensor y = x * 2.f;
      on.close();
      y = y + 1.f;
      Session session(target, {.timeout = std::chrono::seconds(20)});
      for (; !ending_; ++steps_) {
        const float number = static_cast<float>(steps_ % 1000);
        EXPECT_EQ(session.run(y, {{x, Tensor(number)}}).to<float>(), 2 * number + 1);
      }
    });
  }

  std::atomic<bool> ending_{false};
  std::atomic<int64_t> steps_{0};
  Status outcome_;
  std::thread thread_;
};

class StrangersAtACluster : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::eventually([&] { return job_.steps() > 0; }));
    for (const char* task : {"ps", "worker"}) {
      ports_.push_back(internal::parse_address(cluster_.spec().task_address(task, 0)).port);
    }
  }
  // The job runs on, and others are let in.
  void TearDown() override {
    const int64_t before = job_.steps();
    EXPECT_TRUE(test::eventually([&] { return job_.steps() > before + 10; }));
    EXPECT_EQ(server_status(cluster_.target("ps")).task, "/job:ps/replica:0/task:0");
    const Status outcome = job_.stop();
    EXPECT_TRUE(outcome.ok()) << outcome.to_string();
  }

  test::ProcessCluster cluster_{COHORT_TEST_TASK, 1, 1};
  std::vector<int> ports_;
  Job job_{cluster_.target()};
};

TEST_F(StrangersAtACluster, SayAnything) {
  for (const int port : ports_) {
    for (const std::string& banner : test::banners()) {
      const RawSocket half(port);
      half.send(banner);
      half.half_close();
      half.await_answer();
      const RawSocket rude(port);
      rude.send(banner);
      rude.make_rude();
    }
  }
}

TEST_F(StrangersAtACluster, SayRandomBytes) {
  std::mt19937_64 random(4711);
  for (int i = 0; i < 100; ++i) {
    const RawSocket stranger(ports_[static_cast<size_t>(i % 2)]);
    stranger.send(test::kPreface + test::random_bytes(random, random() % 5000));
  }
}

TEST_F(StrangersAtACluster, KnockAndGo) {
  for (const int port : ports_) {
    for (int i = 0; i < 300; ++i) RawSocket(port).make_rude();
  }
}

// They stay, half open and slow, while the job runs.
TEST_F(StrangersAtACluster, Dawdle) {
  std::vector<std::unique_ptr<RawSocket>> slow;
  for (const int port : ports_) {
    for (int i = 0; i < 30; ++i) slow.push_back(std::make_unique<RawSocket>(port));
  }
  for (const char byte : std::string_view(test::kPreface).substr(0, 6)) {
    const int64_t before = job_.steps();
    for (const auto& stranger : slow) stranger->send({&byte, 1});
    EXPECT_TRUE(test::eventually([&] { return job_.steps() > before + 5; }));
  }
}

}  // namespace
}  // namespace cohort
