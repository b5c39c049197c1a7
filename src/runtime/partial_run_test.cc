#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort {
namespace {

// In this process, and over two tasks of a cluster.
class PartialRuns : public testing::TestWithParam<bool> {
 protected:
  bool remote() const { return GetParam(); }
  // Where the second half of a graph is.
  DeviceScope elsewhere() const { return device(remote() ? "/job:ps/task:0" : "/device:CPU:0"); }
  std::string target() { return remote() ? cluster_->target() : ""; }

  std::unique_ptr<test::LocalCluster> cluster_ =
      GetParam() ? std::make_unique<test::LocalCluster>(1, 1) : nullptr;
  Graph graph_;
  Graph::Scope building_ = graph_.as_default();
};

TEST_P(PartialRuns, GiveTheResultsOfOneRun) {
  const Tensor a = placeholder(kFloat32, {}), b = placeholder(kFloat32, {});
  const Tensor c = placeholder(kFloat32, {});
  const Tensor first = a + b;
  auto on = elsewhere();
  const Tensor second = first * c;
  on.close();
  Session session(target());
  const PartialRun run = session.partial_run_setup({first, second}, {a, b, c});
  EXPECT_EQ(session.partial_run(run, first, {{a, Tensor(1.f)}, {b, Tensor(2.f)}}).to<float>(), 3);
  EXPECT_EQ(session.partial_run(run, second, {{c, Tensor(51.f)}}).to<float>(), 153);
}

TEST_P(PartialRuns, RunNoNodeTwice) {
  const Tensor x = placeholder(kFloat32, {});
  auto on = elsewhere();
  Variable count(0.f, {.name = "count"});
  const Tensor counted = count.assign_add(1.f);
  on.close();
  const Tensor drawn = random::uniform({});
  const Tensor again = drawn + 0.f;
  Tensor ordered;
  {
    const ControlDependencies after({counted});
    ordered = x * 2.f;
  }
  Session session(target());
  session.run(global_variables_initializer());
  const PartialRun run = session.partial_run_setup({counted, drawn, again, ordered}, {x});
  EXPECT_EQ(session.partial_run(run, counted).to<float>(), 1);
  const float number = session.partial_run(run, drawn).to<float>();
  EXPECT_EQ(session.partial_run(run, again).to<float>(), number);
  EXPECT_EQ(session.partial_run(run, ordered, {{x, Tensor(4.f)}}).to<float>(), 8);
  EXPECT_EQ(session.run(count.read_value()).to<float>(), 1);
  // A second one is a run of its own.
  const PartialRun next = session.partial_run_setup({ordered}, {x});
  session.partial_run(next, ordered, {{x, Tensor(4.f)}});
  EXPECT_EQ(session.run(count.read_value()).to<float>(), 2);
}

TEST_P(PartialRuns, KeepWhatLaterPiecesFetch) {
  Variable count(0.f, {.name = "count"});
  const Tensor counted = count.assign_add(1.f);
  const Tensor twice = counted * 2.f;
  Session session(target());
  session.run(global_variables_initializer());
  const PartialRun run = session.partial_run_setup({counted, twice});
  EXPECT_EQ(session.partial_run(run, twice).to<float>(), 2);
  EXPECT_EQ(session.partial_run(run, counted).to<float>(), 1);
}

TEST_P(PartialRuns, MayBeFedFirstAndFetchedLater) {
  const Tensor x = placeholder(kFloat32, {}), y = placeholder(kFloat32, {});
  const Tensor z = x - y;
  Session session(target());
  const PartialRun run = session.partial_run_setup({z, x}, {x, y});
  EXPECT_TRUE(session.partial_run(run, std::vector<Tensor>{}, {{x, Tensor(5.f)}}).empty());
  const auto both = session.partial_run(run, {z, x}, {{y, Tensor(3.f)}});
  EXPECT_EQ(both[0].to<float>(), 2);
  EXPECT_EQ(both[1].to<float>(), 5);
}

TEST_P(PartialRuns, EndWithTheirSession) {
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = neg(x);
  Session session(target());
  const PartialRun run = session.partial_run_setup({y}, {x});
  session.close();
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.partial_run(run, y, {{x, Tensor(1.f)}}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.partial_run_setup({y}, {x}));
}

TEST_P(PartialRuns, SayWhatDoesNotBelong) {
  const Tensor x = placeholder(kFloat32, {}, "x"), y = placeholder(kFloat32, {}, "y");
  const Tensor z = x + y, w = neg(x);
  Session session(target());
  const PartialRun run = session.partial_run_setup({z}, {x, y});
  EXPECT_ERROR(Code::InvalidArgument, "needs 'y', which has not been fed",
               session.partial_run(run, z, {{x, Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "was not declared as a fetch", session.partial_run(run, w));
  EXPECT_ERROR(Code::InvalidArgument, "was not declared as a feed",
               session.partial_run(run, z, {{w, Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "float32",
               session.partial_run(run, z, {{x, Tensor(int64_t{1})}}));
  // Nothing of that has ended it, or fed anything.
  session.partial_run(run, std::vector<Tensor>{}, {{x, Tensor(1.f)}});
  EXPECT_ERROR(Code::InvalidArgument, "the feed 'x' was already part",
               session.partial_run(run, z, {{x, Tensor(1.f)}, {y, Tensor(1.f)}}));
  EXPECT_EQ(session.partial_run(run, z, {{y, Tensor(2.f)}}).to<float>(), 3);
  EXPECT_ERROR(Code::InvalidArgument, "the fetch '", session.partial_run(run, z));
  Graph other;
  Session elsewhere(other);
  EXPECT_ERROR(Code::InvalidArgument, "another graph",
               elsewhere.partial_run(run, std::vector<Tensor>{}));
}

TEST_P(PartialRuns, EndWithTheFirstError) {
  const Tensor x = placeholder(kFloat32, {});
  const Variable never(0.f, {.name = "never"});
  const Tensor bad = never.read_value(), good = neg(x);
  Session session(target());
  const PartialRun run = session.partial_run_setup({bad, good}, {x});
  EXPECT_ERROR(Code::FailedPrecondition, "never", session.partial_run(run, bad));
  EXPECT_ERROR(Code::FailedPrecondition, "never",
               session.partial_run(run, good, {{x, Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "not fed",
               session.partial_run(session.partial_run_setup({good}), good));
}

INSTANTIATE_TEST_SUITE_P(Sessions, PartialRuns, testing::Values(false, true),
                         [](const auto& param) { return param.param ? "Remote" : "Local"; });

}  // namespace
}  // namespace cohort
