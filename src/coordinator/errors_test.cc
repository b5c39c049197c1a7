// What happens when functions fail.

#include <gtest/gtest.h>

#include <thread>

#include "coordinator/closure_queue.h"
#include "coordinator/coordinated_cluster.h"

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
      FifoQueue queue({.dtypes = {kFloat32}, .shapes = {{}}, .name = "never"});
      return queue.dequeue();
    }));
  }
};

TEST_F(FailingFunctions, AreToldOnceAndEndTheRest) {
  const auto a = good();
  coordinator.join();
  const auto c = endless();
  const auto b = bad();
  const auto d = endless();
  const auto e = endless();
  EXPECT_ERROR(Code::OutOfRange, "Gather", coordinator.join());
  EXPECT_EQ(coordinator.fetch(a).to<float>(), 1);
  EXPECT_ERROR(Code::OutOfRange, "Gather", coordinator.fetch(b));
  for (const auto& cancelled : {c, d, e}) {
    EXPECT_ERROR(Code::Cancelled, "", coordinator.fetch(cancelled));
  }
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(coordinator.fetch(good()).to<float>(), 1);
  coordinator.join();
}

TEST_F(FailingFunctions, AreToldByScheduleAndByDone) {
  EXPECT_ERROR(Code::OutOfRange, "Gather", coordinator.fetch(bad()));
  EXPECT_ERROR(Code::OutOfRange, "Gather", good());
  coordinator.join();
  EXPECT_ERROR(Code::OutOfRange, "Gather", coordinator.fetch(bad()));
  EXPECT_ERROR(Code::OutOfRange, "Gather", coordinator.done());
  EXPECT_TRUE(coordinator.done());
}

TEST_F(FailingFunctions, CannotRunForEver) {
  test::CoordinatedCluster other(1, 1);
  ClusterCoordinator impatient(other.strategy, {.function_timeout = milliseconds(200)});
  impatient.schedule(function([] {
    FifoQueue queue({.dtypes = {kFloat32}, .shapes = {{}}, .name = "never"});
    return queue.dequeue();
  }));
  EXPECT_ERROR(Code::DeadlineExceeded, "200 ms", impatient.join());
}

TEST_F(FailingFunctions, EndWithTheCoordinator) {
  std::optional<RemoteValue<std::vector<Tensor>>> left;
  {
    test::CoordinatedCluster other(1, 1);
    ClusterCoordinator shortly(other.strategy);
    left = shortly.schedule(function([] {
      FifoQueue queue({.dtypes = {kFloat32}, .shapes = {{}}, .name = "never"});
      return queue.dequeue();
    }));
  }
  EXPECT_ERROR(Code::Cancelled, "", left->fetch());
}

TEST(ClosureQueue, IsBounded) {
  internal::ClosureQueue queue(2, 1, [] {});
  const auto closure = [] {
    auto made = std::make_shared<internal::Closure>();
    made->result = std::make_shared<internal::RemoteResult>();
    return made;
  };
  queue.add(closure());
  queue.add(closure());
  std::atomic<bool> added = false;
  std::thread third([&] {
    queue.add(closure());
    added = true;
  });
  std::stop_source never;
  EXPECT_FALSE(added);
  const auto first = queue.take(0, never.get_token());
  third.join();
  EXPECT_TRUE(added);
  EXPECT_EQ(queue.all_done_below(), 1);
  queue.succeed(first, {});
  EXPECT_EQ(queue.all_done_below(), 2);
  queue.stop({.code = Code::Cancelled, .message = "over"});
}

TEST(ClosureQueue, PutsBackAtTheEnd) {
  internal::ClosureQueue queue(0, 1, [] {});
  std::stop_source never;
  for (int i = 0; i < 2; ++i) {
    auto made = std::make_shared<internal::Closure>();
    made->result = std::make_shared<internal::RemoteResult>();
    queue.add(made);
  }
  queue.put_back(queue.take(0, never.get_token()));
  EXPECT_EQ(queue.take(0, never.get_token())->number, 2);
  EXPECT_EQ(queue.take(0, never.get_token())->number, 1);
}

}  // namespace
}  // namespace cohort
