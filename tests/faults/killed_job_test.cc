// A job that saves all the time, of which one process after the other is killed: while it starts,
// in a step, while it saves. The last good checkpoint always loads, nothing that was reported as
// saved is lost, and the job goes on. COHORT_KILLS says how often.

#include <gtest/gtest.h>

#include <random>

#include "cohort/cohort.h"
#include "faults/faults.h"
#include "support/process_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

int kills() {
  const char* asked = std::getenv("COHORT_KILLS");
  return asked != nullptr ? std::atoi(asked) : 10;
}

class KilledJob : public testing::Test {
 protected:
  // Worker 0 is the master, worker 1 computes.
  static constexpr const char* kRoles[] = {"ps 0", "worker 1", "client", "worker 0", "ps 1"};

  test::Process& process(const std::string& role) {
    return role == "client" ? *client_ : cluster_.task(job_of(role), index_of(role));
  }
  void start(const std::string& role) {
    if (role == "client") {
      client_ = std::make_unique<test::Process>(
          std::vector<std::string>{FAULTS_TRAINER, "train", cluster_.target(), directory_.path()});
    } else {
      cluster_.start(job_of(role), index_of(role));
    }
  }
  static std::string job_of(const std::string& role) { return role.substr(0, role.find(' ')); }
  static int index_of(const std::string& role) { return role.back() - '0'; }

  double saved() const { return test::last_number(client_->output(), "saved"); }
  void await_progress() {
    const double before = saved();
    ASSERT_TRUE(test::eventually([&] { return saved() > before; })) << client_->output();
  }

  void pause_for_up_to(int microseconds) {
    std::uniform_int_distribution<int> any(0, microseconds);
    std::this_thread::sleep_for(std::chrono::microseconds(any(random_)));
  }

  void kill(const std::string& role) {
    process(role).send(SIGKILL);
    EXPECT_EQ(process(role).wait(std::chrono::seconds(10)), -SIGKILL) << process(role).output();
    if (role == "client") {
      check_checkpoint();
    } else {
      check_beside_client();
    }
    start(role);
  }

  // The client stands still, else it deletes what is being read.
  void check_beside_client() {
    client_->freeze();
    check_checkpoint();
    client_->send(SIGCONT);
  }

  // Everything in the last checkpoint is of one step, not before what was reported.
  void check_checkpoint() {
    reported_ = std::max(reported_, saved());
    const auto latest = latest_checkpoint(directory_.path());
    EXPECT_TRUE(latest || reported_ < 0);
    if (latest) {
      const CheckpointReader reader(*latest);
      reader.verify();
      const double step = reader.read("a").at<double>({0});
      EXPECT_GE(step, reported_);
      for (const char* name : {"a", "b"}) {
        for (const double value : reader.read(name).to_vector<double>()) ASSERT_EQ(value, step);
      }
    }
  }

  const unsigned seed_ = 20'250'117;
  std::mt19937 random_{seed_};
  TemporaryDirectory directory_;
  test::ProcessCluster cluster_{COHORT_TEST_TASK, 2, 2};
  std::unique_ptr<test::Process> client_;
  double reported_ = -1;
};

TEST_F(KilledJob, GoesOnFromItsLastCheckpoint) {
  start("client");
  await_progress();
  for (int i = 0; i < kills() && !HasFailure(); i += 2) {
    const std::string role = kRoles[(i / 2) % std::size(kRoles)];
    SCOPED_TRACE("kill " + std::to_string(i) + ", of " + role);
    pause_for_up_to(30'000);
    kill(role);
    pause_for_up_to(1'000'000);  // while it starts, and the others wait for it
    kill(role);
    await_progress();
  }
  check_beside_client();
}

}  // namespace
}  // namespace cohort
