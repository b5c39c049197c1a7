// What happens when functions fail.

#include <gtest/gtest.h>

#include <latch>

#include "cohort/graph_training.h"
#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

class FailingFunctions : public testing::Test, public test::CoordinatedCluster {
 protected:
  FailingFunctions() : CoordinatedCluster(1, 2) {}
  ClusterCoordinator coordinator{strategy, {.functions_per_worker = 1}};
  const Variable v = strategy.create([] { return Variable(0.f); });

  RemoteValue<Tensor> good() {
    return coordinator.schedule([] { return Tensor(1.f); });
  }
  RemoteValue<Tensor> bad() {
    return coordinator.schedule([](Tensor x, Tensor i) { return gather(x, i, 0); }, Tensor({1.f}),
                                Tensor({5}));
  }
  // Waits on a worker until it is cancelled.
  RemoteValue<std::vector<Tensor>> endless() {
    return coordinator.schedule(function([] {
      FifoQueue queue({.components = {{kFloat32, {}}}, .name = "never"});
      return queue.dequeue();
    }));
  }
};

std::latch may_fail(1);

Tensor fails_when_it_may(Tensor) {
  may_fail.wait();
  throw std::runtime_error("the disk is full");
}
COHORT_FUNCTION(coordinator_test_fails_when_it_may, fails_when_it_may);

TEST_F(FailingFunctions, AreToldOnceAndEndTheRest) {
  const auto a = good();
  coordinator.join();
  const auto c = endless();
  const auto b = coordinator.schedule_native("coordinator_test_fails_when_it_may", {Tensor(1.f)},
                                             {{kFloat32, {}}});
  const auto d = endless();
  const auto e = endless();
  EXPECT_EQ(e.status(), RemoteValueStatus::NotReady);
  may_fail.count_down();  // after the last schedule(), which would throw the error otherwise
  EXPECT_ERROR(Code::Unknown, "the disk is full", coordinator.join());
  EXPECT_EQ(e.status(), RemoteValueStatus::Ready);
  EXPECT_EQ(coordinator.fetch(a).to<float>(), 1);
  EXPECT_THROW(coordinator.fetch(b), Error);
  for (const auto& cancelled : {c, d, e}) {
    EXPECT_ERROR(Code::Cancelled, "", coordinator.fetch(cancelled));
  }
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(coordinator.fetch(good()).to<float>(), 1);
  coordinator.join();
}

TEST_F(FailingFunctions, AreToldByScheduleAndByDone) {
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.fetch(bad()));
  EXPECT_ERROR(Code::InvalidArgument, "Gather", good());
  coordinator.join();
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.fetch(bad()));
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.done());
  EXPECT_TRUE(coordinator.done());
}

TEST_F(FailingFunctions, KeepTheCoordinatorBusyUntilTheyEnd) {
  EXPECT_TRUE(coordinator.done());
  const auto runs = endless();
  EXPECT_FALSE(coordinator.done());
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.fetch(bad()));
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.done());
  EXPECT_ERROR(Code::Cancelled, "", coordinator.fetch(runs));
  EXPECT_TRUE(coordinator.done());
}

TEST_F(FailingFunctions, CannotRunForEver) {
  test::CoordinatedCluster other(1, 1);
  ClusterCoordinator impatient(other.strategy, {.function_timeout = milliseconds(200)});
  impatient.schedule(function([] {
    FifoQueue queue({.components = {{kFloat32, {}}}, .name = "never"});
    return queue.dequeue();
  }));
  EXPECT_ERROR(Code::DeadlineExceeded, "200 ms", impatient.join());
}

TEST_F(FailingFunctions, DoNotRunWhenTheyAreScheduledAfterAnother) {
  EXPECT_ERROR(Code::InvalidArgument, "Gather", coordinator.fetch(bad()));
  Variable count = v;
  EXPECT_ERROR(Code::InvalidArgument, "Gather",
               coordinator.schedule([&] { count.assign_add(1.f); }));
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 0);
}

TEST_F(FailingFunctions, AreToldOnceThoughSeveralFail) {
  for (int round = 0; round < 3; ++round) {
    const Status outcome = capture_status([&] {
      for (int i = 0; i < 10; ++i) bad();
      coordinator.join();
    });
    EXPECT_EQ(outcome.code, Code::InvalidArgument) << outcome.to_string();
    EXPECT_TRUE(coordinator.done());
    coordinator.join();
  }
}

TEST_F(FailingFunctions, MayTakeTooLongAFewTimesWhereThatIsForgiven) {
  test::CoordinatedCluster other(1, 1);
  ClusterCoordinator patient(other.strategy,
                             {.function_timeout = milliseconds(100), .timeouts_until_error = 3});
  patient.schedule(function([] {
    FifoQueue queue({.components = {{kFloat32, {}}}, .name = "never"});
    return queue.dequeue();
  }));
  EXPECT_ERROR(Code::DeadlineExceeded, "100 ms", patient.join());
  uint64_t runs = 0;
  for (const auto& session : other.cluster.server("worker", 0).status().sessions) {
    runs += session.steps;
  }
  EXPECT_EQ(runs, 3u);
}

std::latch released(1);

Tensor throws(Tensor) { throw std::runtime_error("the disk is full"); }
COHORT_FUNCTION(coordinator_test_throws, throws);
Tensor wrong_shape(Tensor) { return Tensor({1.f, 2.f}); }
COHORT_FUNCTION(coordinator_test_wrong_shape, wrong_shape);
Tensor waits(Tensor x) {
  released.wait();
  return x;
}
COHORT_FUNCTION(coordinator_test_waits, waits);

TEST_F(FailingFunctions, AreNamedWhenTheyAreTheProgramsOwn) {
  const auto call = [&](const char* name) {
    return coordinator.schedule_native(name, {Tensor(1.f)}, {{kFloat32, {}}});
  };
  for (const auto& [name, what] :
       std::map<const char*, const char*>{{"coordinator_test_throws", "the disk is full"},
                                          {"coordinator_test_wrong_shape", "(2,)"}}) {
    const Status status = capture_status([&] { coordinator.fetch(call(name)); });
    EXPECT_NE(status.to_string().find(name), std::string::npos) << status.to_string();
    EXPECT_NE(status.to_string().find(what), std::string::npos) << status.to_string();
    EXPECT_EQ(capture_status([&] { coordinator.join(); }).code, status.code);
  }
  EXPECT_EQ(coordinator.fetch(good()).to<float>(), 1);
}

TEST_F(FailingFunctions, AreLeftBehindWhenTheyNeverReturn) {
  test::CoordinatedCluster other(1, 1);
  ClusterCoordinator impatient(other.strategy, {.function_timeout = milliseconds(200)});
  impatient.schedule_native("coordinator_test_waits", {Tensor(1.f)}, {{kFloat32, {}}});
  EXPECT_ERROR(Code::DeadlineExceeded, "200 ms", impatient.join());
  released.count_down();
}

TEST_F(FailingFunctions, SayWhatTheyUseThatCannotBeSent) {
  data::Iterator here = data::range(3).iterator();
  EXPECT_ERROR(Code::FailedPrecondition, "of this process, whose elements workers do not reach",
               coordinator.schedule(function([&] { return here.next().tensor(); })));
  EXPECT_ERROR(Code::FailedPrecondition, "uses a dataset of this process", coordinator.schedule([] {
    return data::range(3).iterator().for_each([](const data::Element&) {});
  }));
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  const Variable elsewhere = mirrored.create([] { return Variable(1.f, {.name = "elsewhere"}); });
  EXPECT_ERROR(Code::FailedPrecondition, "variable 'elsewhere'",
               coordinator.schedule(function([&] { return elsewhere.read_value(); })));
  EXPECT_TRUE(coordinator.done());
}

// The two iterators are of one kind, so both calls have one trace.
TEST_F(FailingFunctions, TakeNoIteratorOfTheChief) {
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  const auto iterator = coordinator.create_per_worker_dataset(data::range(3)).iterator();
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(next, iterator)).to<int64_t>(), 0);
  data::Iterator here = data::range(3).iterator();
  EXPECT_ERROR(Code::FailedPrecondition, "pass an iterator of create_per_worker_dataset()",
               coordinator.schedule(next, here));
  EXPECT_EQ(next.num_traces(), 1u);
  EXPECT_TRUE(coordinator.done());
}

TEST_F(FailingFunctions, AreToldThatTheirInputCannotBeMade) {
  static std::atomic<bool> gone{false};
  const auto numbers = data::register_generator("coordinator_test_numbers", [] {
    if (gone) throw Error(Code::NotFound, "the numbers are gone");
    return data::NextFunction([] { return data::Element(Tensor(1.f)); });
  });
  const data::ElementSpec number(TensorSpec{kFloat32, {}});
  const auto dataset = coordinator.create_per_worker_dataset(data::generator(numbers, number));
  const auto iterator = dataset.iterator();
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  EXPECT_EQ(coordinator.fetch(coordinator.schedule_on(0, next, iterator)).to<float>(), 1);
  gone = true;
  const RemoteValue result = coordinator.schedule_on(1, next, iterator);
  EXPECT_ERROR(Code::NotFound, "[Input] iterator", coordinator.fetch(result));
  EXPECT_ERROR(Code::NotFound, "the numbers are gone", coordinator.join());
  EXPECT_EQ(coordinator.fetch(good()).to<float>(),
            1);  // functions that do not use it are not harmed
}

// The worker places all nodes of a session together, so nothing of the function may stay there.
TEST_F(FailingFunctions, ThatCannotBePlacedDoNotHarmOthers) {
  const auto known = function([] { return Tensor(7.f); });
  const auto run = [&](const auto& f) {
    return coordinator.fetch(coordinator.schedule_on(0, f)).template to<float>();
  };
  EXPECT_EQ(run(known), 7);
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(Code::InvalidArgument, "cannot be placed", run([] {
                   const auto on = device("/gpu:0");
                   return sum(ones({2}) + constant(1.f));
                 }));
    EXPECT_ERROR(Code::InvalidArgument, "cannot be placed", coordinator.join());
    EXPECT_EQ(run(known), 7);
    EXPECT_EQ(run([i] { return Tensor(float(i)); }), i);
  }
}

TEST_F(FailingFunctions, EndWithTheCoordinator) {
  std::optional<RemoteValue<std::vector<Tensor>>> left;
  {
    test::CoordinatedCluster other(1, 1);
    ClusterCoordinator shortly(other.strategy);
    left = shortly.schedule(function([] {
      FifoQueue queue({.components = {{kFloat32, {}}}, .name = "never"});
      return queue.dequeue();
    }));
  }
  EXPECT_ERROR(Code::Cancelled, "", left->fetch());
}

// A cancellation reaches the servers, and their answers come back, on the thread that cancels.
TEST(CancelledFunctions, OfServersOfThisProcessEnd) {
  test::CoordinatedCluster here(2, 5);
  ClusterCoordinator coordinator(here.strategy);
  Variable a = here.strategy.create([] { return Variable(0.f); });
  Variable b = here.strategy.create([] { return Variable(0.f); });
  const auto add = function([&] {
    a.assign_add(1.f);
    b.assign_add(a.read_value());
  });
  const auto bad = function([](Tensor x) { return gather(x, Tensor({5}), 0); });
  for (int round = 0; round < 30; ++round) {
    const Status outcome = capture_status([&] {
      for (int i = 0; i < 20; ++i) {
        coordinator.schedule(add);
        if (i == 10) coordinator.schedule(bad, Tensor({1.f}));
      }
      coordinator.join();
    });
    EXPECT_EQ(outcome.code, Code::InvalidArgument) << outcome.to_string();
  }
}

}  // namespace
}  // namespace cohort
