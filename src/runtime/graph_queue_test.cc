#include <gtest/gtest.h>

#include <future>

#include "cohort/cohort.h"
#include "cohort/queue.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

TEST(FifoQueue, CarriesElementsFromRunToRun) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.capacity = 10, .components = {{kFloat32, {2}}, {kInt64, {}}}});
  const Tensor x = placeholder(kFloat32, {2});
  const Tensor n = placeholder(kInt64, {});
  const Tensor put = queue.enqueue({x, n});
  const std::vector<Tensor> got = queue.dequeue();
  const Tensor size = queue.size();
  EXPECT_EQ(got[0].shape(), (Shape{2}));
  EXPECT_EQ(got[1].dtype(), kInt64);
  Session session;
  session.run(put, {{x, Tensor({1.f, 2.f})}, {n, Tensor(int64_t{7})}});
  session.run(put, {{x, Tensor({3.f, 4.f})}, {n, Tensor(int64_t{8})}});
  EXPECT_EQ(session.run(size).to<int64_t>(), 2);
  const std::vector<Tensor> first = session.run(got);
  EXPECT_EQ(first[0].to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(first[1].to<int64_t>(), 7);
  EXPECT_EQ(session.run(got)[1].to<int64_t>(), 8);
}

TEST(FifoQueue, TakesAndGivesBatches) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32, {2}}, {kString, {}}}});
  const Tensor put =
      queue.enqueue_many({Tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}), Tensor({"a", "b", "c"})});
  const std::vector<Tensor> two = queue.dequeue_many(2);
  EXPECT_EQ(two[0].shape(), (Shape{2, 2}));
  Session session;
  session.run(put);
  const std::vector<Tensor> batch = session.run(two);
  EXPECT_EQ(batch[0].to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(batch[1].to_vector<std::string>(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(session.run(queue.size()).to<int64_t>(), 1);
}

TEST(FifoQueue, HoldsElementsOfAnyShapeUnlessToldOtherwise) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32}}, .name = "any"});
  Session session;
  session.run({queue.enqueue({Tensor({1.f, 2.f})}), queue.enqueue({Tensor(3.f)})});
  const std::vector<Tensor> got = queue.dequeue();
  EXPECT_FALSE(got[0].shape().has_rank());
  EXPECT_EQ(session.run(got)[0].shape(), (Shape{2}));
  EXPECT_EQ(session.run(got)[0].shape(), Shape{});
  EXPECT_ERROR(Code::InvalidArgument, "queue 'any' holds (float32 <unknown>)",
               queue.dequeue_many(2));
}

TEST(FifoQueue, RefusesWrongElementsNamingTheQueue) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32, {2}}, {kInt64, {}}}, .name = "inputs"});
  const Tensor good({1.f, 2.f});
  EXPECT_ERROR(Code::InvalidArgument, "queue 'inputs' has 2 tensors, got 1", queue.enqueue({good}));
  EXPECT_ERROR(Code::InvalidArgument, "tensor 1 of queue 'inputs' is int64 (), got float32 (2,)",
               queue.enqueue({good, good}));
  EXPECT_ERROR(Code::InvalidArgument,
               "tensor 0 of queue 'inputs' is float32 (2,), got float32 (3,)",
               queue.enqueue({ones({3}), Tensor(int64_t{1})}));
  EXPECT_ERROR(Code::InvalidArgument, "of queue 'inputs'",
               queue.enqueue_many({good, Tensor({int64_t{1}})}));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 element", queue.dequeue_many(0));
  const Tensor x = placeholder(kFloat32);
  const Tensor put = queue.enqueue({x, Tensor(int64_t{1})});
  const Tensor rows = placeholder(kFloat32, {-1, 2});
  const Tensor put_many = queue.enqueue_many({rows, Tensor({int64_t{1}})});
  Session session;
  EXPECT_ERROR(Code::InvalidArgument, "tensor 0 of queue 'inputs'",
               session.run(put, {{x, Tensor({1.f, 1.f, 1.f})}}));
  EXPECT_ERROR(Code::InvalidArgument, "for queue 'inputs' have 2 and 1 rows",
               session.run(put_many, {{rows, Tensor({{1.f, 1.f}, {1.f, 1.f}})}}));
}

TEST(FifoQueue, RefusesWrongOptions) {
  EXPECT_ERROR(Code::FailedPrecondition, "", FifoQueue({.components = {{kFloat32}}}));
  Graph graph;
  auto building = graph.as_default();
  EXPECT_ERROR(Code::InvalidArgument, "must be at least 1, got 0; leave it empty for no limit",
               FifoQueue({.capacity = 0, .components = {{kFloat32}}}));
  EXPECT_ERROR(Code::InvalidArgument, "needs the components", FifoQueue({.capacity = 3}));
}

TEST(FifoQueue, IsSharedByNameAndMustBeTheSameQueue) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32}}, .shared_name = "common"});
  FifoQueue same({.capacity = -1, .components = {{kFloat32}}, .shared_name = "common"});
  FifoQueue wider({.capacity = 4, .components = {{kFloat32}}, .shared_name = "common"});
  FifoQueue other({.components = {{kInt64}}, .shared_name = "common"});
  Session session;
  session.run(queue.enqueue({Tensor(5.f)}));
  EXPECT_EQ(session.run(same.dequeue())[0].to<float>(), 5.f);
  EXPECT_ERROR(Code::InvalidArgument, "'common' already exists with capacity unlimited, not 4",
               session.run(wider.size()));
  EXPECT_ERROR(Code::InvalidArgument, "'common' holds (float32 <unknown>)",
               session.run(other.dequeue()));
}

TEST(FifoQueue, EndsWithOutOfRangeOnceClosedAndDrained) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32}}, .name = "q"});
  const Tensor put = queue.enqueue({Tensor(1.f)});
  const Tensor got = queue.dequeue()[0];
  Session session;
  session.run(put);
  session.run(queue.close());
  EXPECT_ERROR(Code::Cancelled, "'q' is closed", session.run(put));
  EXPECT_EQ(session.run(got).to<float>(), 1.f);
  EXPECT_ERROR(Code::OutOfRange, "'q' is closed", session.run(got));
}

TEST(FifoQueue, WaitsNoLongerThanTheRun) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.capacity = 1, .components = {{kFloat32}}});
  const Tensor put = queue.enqueue({Tensor(1.f)});
  const Tensor got = queue.dequeue()[0];
  Session session;
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 30 ms",
               session.run(got, {}, {.timeout = milliseconds(30)}));
  session.run(put);
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 30 ms",
               session.run(put, {}, {.timeout = milliseconds(30)}));
  EXPECT_EQ(session.run(got).to<float>(), 1.f);
}

TEST(FifoQueue, ClosingTheSessionEndsTheWaiting) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32}}});
  const Tensor got = queue.dequeue()[0];
  Session session;
  session.run(queue.size());
  auto waiting =
      std::async(std::launch::async, [&] { return capture_status([&] { session.run(got); }); });
  session.close();
  const Status status = waiting.get();
  // The run may not have begun.
  EXPECT_TRUE(status.code == Code::Cancelled || status.code == Code::FailedPrecondition)
      << status.to_string();
}

TEST(FifoQueue, WorksBetweenThreadsThatRunTheSameSession) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.capacity = 2, .components = {{kInt64, {}}}});
  const Tensor x = placeholder(kInt64, {});
  const Tensor put = queue.enqueue({x});
  const Tensor batch = queue.dequeue_many(10)[0];
  Session session;
  auto feeding = std::async(std::launch::async, [&] {
    for (int64_t i = 0; i < 20; ++i) session.run(put, {{x, Tensor(i)}});
  });
  EXPECT_EQ(session.run(sum(batch)).to<int64_t>(), 45);
  EXPECT_EQ(session.run(sum(batch)).to<int64_t>(), 145);
  feeding.get();
}

TEST(FifoQueue, WorksInsideOfBranches) {
  Graph graph;
  auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32, {}}}});
  const Tensor go = placeholder(kBool, {});
  const Tensor value = cond(
      go, [&] { return queue.dequeue()[0]; }, [] { return constant(-1.f); });
  Session session;
  session.run(queue.enqueue({Tensor(4.f)}));
  EXPECT_EQ(session.run(value, {{go, Tensor(false)}}).to<float>(), -1.f);
  EXPECT_EQ(session.run(value, {{go, Tensor(true)}}).to<float>(), 4.f);
}

TEST(FifoQueue, TravelsWithItsGraph) {
  Graph graph;
  {
    auto building = graph.as_default();
    FifoQueue queue({.capacity = 3, .components = {{kFloat32, {}}}});
    queue.enqueue({Tensor(2.f)});
    queue.dequeue();
  }
  const Graph read = Graph::deserialize(graph.serialize());
  Session session(read);
  session.run(read.tensor("QueueEnqueue"));
  EXPECT_EQ(session.run(read.tensor("QueueDequeue")).to<float>(), 2.f);
}

}  // namespace
}  // namespace cohort
