// How workers find each other, and what is said when they cannot.

#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "cohort/cohort.h"
#include "distribute/strategies/worker_strategies.h"
#include "rpc/certificates.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using test::free_addresses;
using test::free_workers;
using test::run_threads;
using test::worker_of;

ClusterSpec workers_at(const TaskList& addresses) {
  return ClusterSpec(std::map<std::string, TaskList>{{"worker", addresses}});
}

// Longer than a test may take, so only other workers or an error can end the wait.
const MultiWorkerOptions kPatient{.start_timeout = std::chrono::hours(1)};
const MultiWorkerOptions kShort{.start_timeout = milliseconds(1'500)};

// What the workers throw that are started with these clusters.
std::vector<Status> start(const std::vector<ClusterSpec>& clusters,
                          const std::vector<MultiWorkerOptions>& options) {
  return run_threads(static_cast<int>(clusters.size()), [&](int id) {
    const auto i = static_cast<size_t>(id);
    const MultiWorkerMirroredStrategy strategy(worker_of(clusters[i], id),
                                               options[std::min(i, options.size() - 1)]);
  });
}

void expect_all(const std::vector<Status>& statuses, Code code,
                const std::vector<std::string>& fragments) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, code) << status.to_string();
    for (const std::string& fragment : fragments) {
      EXPECT_NE(status.to_string().find(fragment), std::string::npos)
          << fragment << " in: " << status.to_string();
    }
  }
}

TEST(MultiWorkerStart, NamesClustersThatDiffer) {
  const TaskList all = free_addresses(3);
  expect_all(start({workers_at({all[0], all[1]}), workers_at(all)}, {kPatient}),
             Code::FailedPrecondition, {"2 workers", "3 workers", "task:0", "task:1"});
}

TEST(MultiWorkerStart, NamesClustersThatDifferInTheLeader) {
  const TaskList all = free_addresses(4);
  expect_all(start({workers_at({all[0], all[1], all[2]}), workers_at({all[3], all[1], all[2]}),
                    workers_at({all[0], all[1], all[2]})},
                   {kPatient}),
             Code::FailedPrecondition, {"start all with the same cluster", all[3]});
}

TEST(MultiWorkerStart, NamesOtherNumbersOfReplicas) {
  const ClusterSpec cluster = free_workers(2);
  MultiWorkerOptions two = kPatient;
  two.devices = {"CPU:0", "CPU:1"};
  expect_all(start({cluster, cluster}, {kPatient, two}), Code::FailedPrecondition,
             {"1 replicas", "the other 2"});
}

TEST(MultiWorkerStart, NamesOtherGuards) {
  const ClusterSpec cluster = free_workers(2);
  MultiWorkerOptions other = kPatient;
  other.guards.divergence_interval = 7;
  expect_all(start({cluster, cluster}, {kPatient, other}), Code::FailedPrecondition,
             {"every 7 steps", "every 100 steps"});
}

TEST(MultiWorkerStart, NamesAWorkerThatDoesNotCome) {
  const ClusterSpec cluster = free_workers(3);
  expect_all(start({cluster, cluster}, {kShort}), Code::DeadlineExceeded, {"task:2"});
}

TEST(MultiWorkerStart, NamesAChiefThatDoesNotCome) {
  const TaskList all = free_addresses(3);
  const ClusterSpec cluster(
      std::map<std::string, TaskList>{{"chief", {all[0]}}, {"worker", {all[1], all[2]}}});
  const auto statuses = run_threads(2, [&](int id) {
    const MultiWorkerMirroredStrategy strategy(worker_of(cluster, id), kShort);
  });
  expect_all(statuses, Code::DeadlineExceeded, {"/job:chief/replica:0/task:0 at " + all[0]});
}

TEST(MultiWorkerStart, TheChiefIsWorkerZero) {
  const TaskList all = free_addresses(2);
  const ClusterSpec cluster(
      std::map<std::string, TaskList>{{"chief", {all[0]}}, {"worker", {all[1]}}});
  const auto statuses = run_threads(2, [&](int id) {
    const SimpleClusterResolver resolver(cluster,
                                         {.task_type = id == 0 ? "chief" : "worker", .task_id = 0});
    const MultiWorkerMirroredStrategy strategy(resolver);
    EXPECT_EQ(strategy.worker_id(), id);
    EXPECT_EQ(strategy.is_chief(), id == 0);
    EXPECT_EQ(strategy.communicator().member(0), "/job:chief/replica:0/task:0");
  });
  expect_all(statuses, Code::Ok, {});
}

TEST(MultiWorkerStart, EverybodyHearsOfAPortThatIsTaken) {
  const ClusterSpec cluster = free_workers(2);
  const Server other(ClusterSpec{{"ps", {cluster.task_address("worker", 1)}}});
  expect_all(start({cluster, cluster}, {kPatient}), Code::Unknown,
             {"task:1", "cannot listen at " + cluster.task_address("worker", 1)});
}

TEST(MultiWorkerStart, EverybodyHearsOfTheLeadersPortThatIsTaken) {
  const ClusterSpec cluster = free_workers(2);
  const Server other(ClusterSpec{{"ps", {cluster.task_address("worker", 0)}}});
  expect_all(start({cluster, cluster}, {kPatient}), Code::Unknown, {"task:0", "cannot listen at"});
}

TEST(MultiWorkerStart, EverybodyHearsOfTwoWorkersWithOneIndex) {
  const ClusterSpec cluster = free_workers(3);
  const auto statuses = run_threads(3, [&](int id) {
    const MultiWorkerMirroredStrategy strategy(worker_of(cluster, std::min(id, 1)), kPatient);
  });
  for (const Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.to_string().find("worker 1"), std::string::npos) << status.to_string();
  }
}

TEST(MultiWorkerStart, WorkersShowTheirCertificates) {
  const ScopedEnvironment remote(ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "grpc"}});
  const ClusterSpec cluster = free_workers(2);
  const internal::RunAuthority authority;
  const internal::RunAuthority stranger;
  const auto credentials = [&](const internal::RunAuthority& by, int id) {
    return by.issue(
        {.name = "/job:worker/replica:0/task:" + std::to_string(id), .token = "0123456789abcdef"});
  };
  expect_all(start({cluster, cluster}, {{.credentials = credentials(authority, 0)},
                                        {.credentials = credentials(authority, 1)}}),
             Code::Ok, {});
  for (const Status& status :
       start({cluster, cluster},
             {{.credentials = credentials(authority, 0), .start_timeout = milliseconds(2000)},
              {.credentials = credentials(stranger, 1), .start_timeout = milliseconds(2000)}})) {
    EXPECT_FALSE(status.ok());
  }
}

TEST(MultiWorkerStart, RefusesAnAddressThatComesTwice) {
  const ClusterSpec twice = workers_at({"localhost:1", "localhost:1"});
  EXPECT_ERROR(Code::InvalidArgument, "have the same address, localhost:1",
               MultiWorkerMirroredStrategy(worker_of(twice, 0)));
}

TEST(MultiWorkerStart, ChecksTheTask) {
  const ClusterSpec cluster(
      std::map<std::string, TaskList>{{"worker", {"localhost:1"}}, {"ps", {"localhost:2"}}});
  const auto make = [&](SimpleResolverOptions options) {
    const MultiWorkerMirroredStrategy strategy(SimpleClusterResolver(cluster, std::move(options)));
  };
  EXPECT_ERROR(Code::InvalidArgument, "type of this task", make({}));
  EXPECT_ERROR(Code::InvalidArgument, "index of this", make({.task_type = "worker"}));
  EXPECT_ERROR(Code::InvalidArgument, "number 3", make({.task_type = "worker", .task_id = 3}));
  EXPECT_ERROR(Code::InvalidArgument, "ps, which holds variables",
               make({.task_type = "ps", .task_id = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "nullptr",
               MultiWorkerMirroredStrategy(std::shared_ptr<const ClusterResolver>()));
  EXPECT_ERROR(Code::InvalidArgument, "bytes_per_pack",
               MultiWorkerMirroredStrategy(SimpleClusterResolver(ClusterSpec()),
                                           {.communication = {.bytes_per_pack = -1}}));
  EXPECT_ERROR(Code::InvalidArgument, "got 0 ms",
               MultiWorkerMirroredStrategy(SimpleClusterResolver(ClusterSpec()),
                                           {.start_timeout = milliseconds(0)}));
  EXPECT_ERROR(Code::InvalidArgument, "and -1 ms",
               MultiWorkerMirroredStrategy(SimpleClusterResolver(ClusterSpec()),
                                           {.silence_limit = milliseconds(-1)}));
}

TEST(MultiWorkerStart, AnEvaluatorIsAlone) {
  const ClusterSpec cluster = free_workers(2);
  const MultiWorkerMirroredStrategy strategy(
      SimpleClusterResolver(cluster, {.task_type = "evaluator", .task_id = 0}));
  EXPECT_EQ(strategy.num_workers(), 1);
  EXPECT_TRUE(strategy.is_chief());
}

TEST(MultiWorkerStart, WhoComesTooLateIsToldThatTheGroupHasBegun) {
  const ClusterSpec cluster = free_workers(2);
  const TaskList elsewhere = free_addresses(1);
  std::promise<void> begun;
  std::promise<void> refused;
  std::shared_future<void> may_end = refused.get_future().share();
  const auto statuses = run_threads(3, [&](int id) {
    if (id < 2) {
      const MultiWorkerMirroredStrategy strategy(worker_of(cluster, id));
      if (id == 0) begun.set_value();
      may_end.wait_for(std::chrono::seconds(20));
      return;
    }
    begun.get_future().wait();
    const ClusterSpec moved = workers_at({cluster.task_address("worker", 0), elsewhere[0]});
    const Status status = capture_status(
        [&] { const MultiWorkerMirroredStrategy strategy(worker_of(moved, 1), kPatient); });
    refused.set_value();
    throw_if_error(status);
  });
  EXPECT_TRUE(statuses[0].ok()) << statuses[0].to_string();
  EXPECT_TRUE(statuses[1].ok()) << statuses[1].to_string();
  EXPECT_EQ(statuses[2].code, Code::AlreadyExists) << statuses[2].to_string();
}

TEST(MultiWorkerStart, AWorkerThatCouldNotRejoinSaysSoUntilItHas) {
  const ClusterSpec cluster = free_workers(2);
  std::promise<void> asked;
  // Workers compare the lines of their calls, so both workers make this call at one line.
  const auto count_workers = [](Strategy& strategy) {
    return strategy.reduce(ReduceOp::Sum, Tensor(1.f)).to<float>();
  };
  const auto statuses = run_threads(2, [&](int id) {
    std::optional<MultiWorkerMirroredStrategy> strategy;
    strategy.emplace(worker_of(cluster, id), kPatient);
    if (id == 1) {
      strategy.reset();
      asked.get_future().wait_for(std::chrono::seconds(20));
      strategy.emplace(worker_of(cluster, id), kPatient);
      EXPECT_EQ(count_workers(*strategy), 2);
      return;
    }
    internal::JointWorkers& workers = *internal::joint_workers(strategy->extended());
    EXPECT_ERROR(Code::DeadlineExceeded, "task:1", workers.rejoin(milliseconds(300)));
    const char* const text = "task:0 is in no group: it has left generation 1";
    EXPECT_ERROR(Code::Unavailable, text, strategy->run([] { return Tensor(1.f); }));
    EXPECT_ERROR(Code::Unavailable, text, count_workers(*strategy));
    EXPECT_ERROR(Code::Unavailable, text, strategy->gather(Tensor({1.f}), 0));
    EXPECT_ERROR(Code::Unavailable, text, strategy->extended().gather_from_workers("own", "what"));
    {
      const auto scope = strategy->scope();
      EXPECT_ERROR(Code::Unavailable, text, Variable(1.f));
    }
    asked.set_value();
    workers.rejoin(milliseconds(20'000));
    EXPECT_EQ(count_workers(*strategy), 2);
  });
  expect_all(statuses, Code::Ok, {});
}

}  // namespace
}  // namespace cohort
