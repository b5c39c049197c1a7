// all_reduce and all_gather in traced functions.

#include "support/expect_error.h"
#include "support/ways_of_reducing.h"

namespace cohort {
namespace {

// Functions that each replica traces by itself.
using TracedReductions = EveryWay;
INSTANTIATE_TEST_SUITE_P(Ways, TracedReductions, kWays, name_of_way);

TEST_P(TracedReductions, GiveWhatTheyGiveAtOnce) {
  const auto reduce = function([](Tensor x) {
    return std::pair{all_reduce(ReduceOp::Sum, x) * 2.f, all_reduce(ReduceOp::Mean, x)};
  });
  for (int i = 0; i < 3; ++i) {
    const auto result = two_.run([&] { return reduce(Tensor({replica_id() + 1.f})); });
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(result[r].first.to<float>(), 6);
      EXPECT_EQ(result[r].second.to<float>(), 1.5);
    }
  }
}

TEST_P(TracedReductions, HaveGradientsInsideOfTheFunction) {
  const auto slope = function([](Tensor x, Tensor c) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(all_reduce(ReduceOp::Mean, x) * c, x).dense();
  });
  const auto result =
      two_.run([&] { return slope(Tensor({1.f}), Tensor({replica_id() == 0 ? 2.f : 5.f})); });
  EXPECT_EQ(numbers(result), (Numbers{{3.5}, {3.5}}));
}

TEST_P(TracedReductions, HaveGradientsAroundTheFunction) {
  const auto reduce = function([](Tensor x) { return all_reduce(ReduceOp::Sum, x); });
  const auto result = two_.run([&] {
    const Tensor x({1.f});
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(reduce(x) * (replica_id() == 0 ? 2.f : 5.f), x).dense();
  });
  EXPECT_EQ(numbers(result), (Numbers{{7}, {7}}));
}

TEST_P(TracedReductions, GatherAndDifferentiateGathering) {
  const auto step = function([](Tensor own, Tensor weight) {
    GradientTape tape;
    tape.watch(own);
    const Tensor all = all_gather(own, 0);
    return std::pair{all, tape.gradient(sum(all) * weight, own).dense()};
  });
  const auto result = two_.run([&] {
    return step(replica_id() == 0 ? Tensor({7.f}) : Tensor({8.f, 9.f}), Tensor(replica_id() + 1.f));
  });
  EXPECT_EQ(result[1].first.to_vector<float>(), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(result[0].second.to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(result[1].second.to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST_P(TracedReductions, JoinRows) {
  const auto join = function([](Tensor values, Tensor rows) {
    return all_reduce(ReduceOp::Mean, IndexedSlices{values, rows, {3, 1}}).to_dense();
  });
  const auto result = two_.run([&] {
    return replica_id() == 0 ? join(Tensor({{8.f}}), Tensor({int64_t{2}}))
                             : join(Tensor({{1.f}, {2.f}}), Tensor({int64_t{0}, int64_t{2}}));
  });
  EXPECT_EQ(numbers(result), (Numbers{{.5, 0, 5}, {.5, 0, 5}}));
}

TEST_P(TracedReductions, MayBeInAFunctionInsideOfTheFunction) {
  const auto outer = function([](Tensor x) {
    const auto inner = function([](Tensor y) { return all_reduce(ReduceOp::Sum, y); });
    return inner(x) + 1.f;
  });
  const auto result = two_.run([&] { return outer(Tensor({replica_id() + 1.f})); });
  EXPECT_EQ(numbers(result), (Numbers{{4}, {4}}));
}

TEST_P(TracedReductions, AreErrorsWhenTheReplicasDisagree) {
  const auto reduce = function([](Tensor x) { return all_reduce(ReduceOp::Sum, x); });
  EXPECT_ERROR(Code::InvalidArgument, "shapes differ",
               two_.run([&] { return reduce(zeros({replica_id() + 2})); }));
}

// Without a comparison the gradients of different variables would be added up.
TEST_P(TracedReductions, NameVariablesWhoseGradientsOnlySomeReplicasHave) {
  const auto scope = two_.scope();
  Variable first(1.f, {.name = "first"});
  Variable second(2.f, {.name = "second"});
  optim::Sgd optimizer({.learning_rate = 1.0});
  const std::vector<Variable> all{first, second};
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = (replica_id() == 0 ? first : second) * x;
    optimizer.apply_gradients(tape.gradient(loss, all), all);
    return loss;
  });
  const Status status = capture_status([&] { two_.run(step, Tensor(1.f)); });
  EXPECT_EQ(status.root().code, Code::FailedPrecondition) << status.to_string();
  for (const char* const part :
       {"none for 'first'", "none for 'second'", "replica 0", "replica 1"}) {
    EXPECT_NE(status.to_string().find(part), std::string::npos)
        << part << " in " << status.to_string();
  }
  EXPECT_EQ(first.read_value().to<float>(), 1);
  EXPECT_EQ(second.read_value().to<float>(), 2);
}

TEST_P(TracedReductions, NameTheReplicaWithoutAnyGradient) {
  const auto step = function([](const Tensor& x) {
    const Gradients own{replica_id() == 0 ? Gradient(x) : Gradient()};
    const Gradients sums = all_reduce(ReduceOp::Sum, own);
    return sums[0].defined() ? sums[0].dense() : x;
  });
  EXPECT_ERROR(Code::FailedPrecondition, "for all_reduce of 1 values, none for number 0",
               two_.run(step, Tensor(1.f)));
}

// One graph for all replicas.
using ReductionsInOneGraph = EveryWay;
INSTANTIATE_TEST_SUITE_P(Ways, ReductionsInOneGraph, kWays, name_of_way);

TEST_P(ReductionsInOneGraph, GiveWhatTheyGiveAtOnce) {
  const auto reduce = function([&](Tensor x) {
    return three_.run(
        [](Tensor whole) {
          const Tensor own = whole * static_cast<float>(replica_id() + 1);
          return std::pair{all_reduce(ReduceOp::Max, own), all_reduce(ReduceOp::Mean, own)};
        },
        x);
  });
  for (int i = 0; i < 2; ++i) {
    const auto results = reduce(Tensor({2.f}));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(results[r].first.to<float>(), 6);
      EXPECT_EQ(results[r].second.to<float>(), 4);
    }
  }
}

TEST_P(ReductionsInOneGraph, HaveGradients) {
  const auto slopes = function([&](Tensor x) {
    return two_.run(
        [](Tensor own) {
          GradientTape tape;
          tape.watch(own);
          const Tensor y = all_reduce(ReduceOp::Mean, own) * (replica_id() == 0 ? 2.f : 5.f);
          return tape.gradient(y, own).dense();
        },
        x);
  });
  EXPECT_EQ(numbers(slopes(Tensor({1.f}))), (Numbers{{3.5}, {3.5}}));
}

// After some shapes the first size is not known any more.
TEST_P(ReductionsInOneGraph, GatherAnyNumberOfRows) {
  const auto gather = function([&](Tensor x) {
    return two_.run(
        [](Tensor whole) {
          const Tensor own = whole * static_cast<float>(replica_id() + 1);
          GradientTape tape;
          tape.watch(own);
          const Tensor all = all_gather(own, 0);
          return std::pair{all, tape.gradient(sum(all * all), own).dense()};
        },
        x);
  });
  for (int64_t rows = 1; rows < 7; ++rows) {
    const auto results = gather(ones({rows, 2}));
    EXPECT_EQ(results[1].first.shape(), (Shape{2 * rows, 2}));
    EXPECT_EQ(results[0].second.to_vector<float>(), std::vector<float>(2 * rows, 4));
    EXPECT_EQ(results[1].second.to_vector<float>(), std::vector<float>(2 * rows, 8));
  }
}

TEST_P(ReductionsInOneGraph, JoinRows) {
  const auto join = function([&](Tensor values) {
    return two_.run(
        [](Tensor own) {
          const Tensor rows({static_cast<int64_t>(replica_id())});
          return all_reduce(ReduceOp::Sum, IndexedSlices{own, rows, {3, 1}}).to_dense();
        },
        values);
  });
  EXPECT_EQ(numbers(join(Tensor({{4.f}}))), (Numbers{{4, 4, 0}, {4, 4, 0}}));
}

}  // namespace
}  // namespace cohort
