// Variables of several parts.

#include "cohort/sharded_variable.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "graph_training/session_manager.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

Variable part(const std::vector<float>& values) { return Variable(Tensor::from(values)); }

class Sharded : public testing::Test {
 protected:
  ShardedVariable s{{part({0, 1, 2, 3}), part({4, 5, 6}), part({7, 8, 9})}, "s"};

  static std::vector<float> numbers(const Tensor& tensor) { return tensor.to_vector<float>(); }
};
using Floats = std::vector<float>;

TEST_F(Sharded, IsOneTensor) {
  EXPECT_EQ(s.shape(), Shape({10}));
  EXPECT_EQ(numbers(s), (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(s.variables().size(), 3u);
  const Variable v = s;
  EXPECT_EQ(numbers(v * 2.f)[9], 18);
  EXPECT_EQ(ShardedVariable(v).name(), "s");
  EXPECT_ERROR(Code::InvalidArgument, "not cut", ShardedVariable(Variable(1.f)));
  size_t rows = 0;
  for (const Variable& shard : s) rows += static_cast<size_t>(shard.shape()[0]);
  EXPECT_EQ(rows, 10u);
}

TEST_F(Sharded, OfAListOfOneHasOneShard) {
  const Variable v({1.f, 2.f}, {.name = "v"});
  const ShardedVariable one({v});
  EXPECT_EQ(one.name(), "ShardedVariable");
  EXPECT_EQ(one.variables().size(), 1u);
  EXPECT_EQ(numbers(one), (Floats{1, 2}));
  const ShardedVariable copy{one};
  EXPECT_EQ(copy.variables().size(), 1u);
  const Variable other({1.f}, {.name = "other"});
  EXPECT_EQ(ShardedVariable({other}, "named").name(), "named");
  const Variable whole = s;
  EXPECT_ERROR(Code::InvalidArgument, "without braces", ShardedVariable({whole}));
}

TEST_F(Sharded, IsSlicedAsTheTensorIs) {
  EXPECT_EQ(numbers(s.slice({{2, 9, 3}})), (Floats{2, 5, 8}));
  EXPECT_EQ(numbers(s.slice({{8, 1, -4}})), (Floats{8, 4}));
  EXPECT_EQ(s[-1].to<float>(), 9);
  EXPECT_EQ(s[4].to<float>(), 4);
  EXPECT_EQ(s.slice({{6, 6}}).shape(), Shape({0}));
  const Tensor all = s;
  for (int64_t begin = -12; begin <= 12; begin += 3) {
    for (int64_t end = -12; end <= 12; end += 2) {
      for (const int64_t step : {1, 2, 4, -1, -3}) {
        const std::vector<Range> range{{begin, end, step}};
        EXPECT_EQ(numbers(s.slice(range)), numbers(slice(all, range)))
            << begin << ":" << end << ":" << step;
      }
    }
  }
  for (const int64_t step : {1, 3, -1, -4}) {
    const std::vector<Range> whole{{std::nullopt, std::nullopt, step}};
    EXPECT_EQ(numbers(s.slice(whole)), numbers(slice(all, whole)));
  }
  EXPECT_ERROR(Code::InvalidArgument, "row 10 does not exist", s[10]);
  EXPECT_ERROR(Code::InvalidArgument, "step 0", s.slice({{0, 3, 0}}));
}

TEST_F(Sharded, IsSlicedInFurtherDimensionsToo) {
  const auto rows = [](int64_t first, int64_t count) {
    return Variable(
        reshape(range(count * 3, kFloat32) + static_cast<float>(first * 3), {count, 3}));
  };
  const ShardedVariable table({rows(0, 3), rows(3, 1), rows(4, 2)});
  const Tensor all = table;
  for (const std::vector<Range>& ranges :
       {std::vector<Range>{{1, 5}, {0, 2}}, std::vector<Range>{{5, 0, -2}, {2, std::nullopt, -1}},
        std::vector<Range>{{3, 3}, {1, 2}}, std::vector<Range>{{-100, 100}},
        std::vector<Range>{}}) {
    const Tensor part = table.slice(ranges);
    EXPECT_EQ(part.shape(), slice(all, ranges).shape());
    EXPECT_EQ(numbers(part), numbers(slice(all, ranges)));
  }
  EXPECT_EQ(numbers(table[3]), (Floats{9, 10, 11}));
  EXPECT_EQ(numbers(table[-6]), (Floats{0, 1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "row -7 does not exist", table[-7]);
}

TEST_F(Sharded, IsCalculatedWithAsOneTensor) {
  EXPECT_EQ(numbers(s * 2.f)[9], 18);
  EXPECT_EQ(numbers(1.f + s)[0], 1);
  EXPECT_EQ(sum(s).to<float>(), 45);
}

TEST_F(Sharded, IsAssignedPartByPart) {
  s.assign_add(ones({10})).assign_sub(ones({10}) * 3.f);
  EXPECT_EQ(numbers(s.variables()[1]), (Floats{2, 3, 4}));
  s.assign(range(10, kFloat32) * 2.f);
  EXPECT_EQ(numbers(s)[7], 14);
  EXPECT_ERROR(Code::InvalidArgument, "'s'", s.assign(ones({9})));
}

TEST_F(Sharded, HasRows) {
  EXPECT_EQ(numbers(s.sparse_read(Tensor({9, 0, 4, 9}))), (Floats{9, 0, 4, 9}));
  s.scatter_add({Tensor({10.f, 20.f, 5.f}), Tensor({int64_t{8}, int64_t{1}, int64_t{1}}), {10}});
  EXPECT_EQ(numbers(s), (Floats{0, 26, 2, 3, 4, 5, 6, 7, 18, 9}));
  s.scatter_update({Tensor({-1.f}), Tensor({int64_t{4}}), {10}});
  EXPECT_EQ(s[4].to<float>(), -1);
  EXPECT_ERROR(Code::InvalidArgument, "vector", s.sparse_read(Tensor({{1}, {2}})));
  EXPECT_ERROR(Code::InvalidArgument, "", s.sparse_read(Tensor({10})));
  const IndexedSlices first{Tensor({2.f}), Tensor({int64_t{0}}), {3}};
  EXPECT_ERROR(Code::InvalidArgument, "vector",
               s.scatter_add({ones({1, 1}), Tensor({{int64_t{0}}}), {10}}));
  ShardedVariable uneven({part({1}), part({2, 3})});
  EXPECT_ERROR(Code::Unimplemented, "does not spread its ", uneven.sparse_read(Tensor({1})));
  EXPECT_ERROR(Code::Unimplemented, "does not spread its ", uneven.scatter_add(first));
  ShardedVariable with_nothing({part({1}), part({})});
  EXPECT_EQ(numbers(with_nothing), (Floats{1}));
  EXPECT_ERROR(Code::Unimplemented, "does not spread its ", with_nothing.sparse_read(Tensor({0})));
}

TEST_F(Sharded, ChangesRowsInEveryWay) {
  const IndexedSlices rows{Tensor({2.f, 4.f}), Tensor({int64_t{9}, int64_t{3}}), {10}};
  const auto now = [&] { return std::pair{s[9].to<float>(), s[3].to<float>()}; };
  using Two = std::pair<float, float>;
  EXPECT_EQ((s.scatter_mul(rows), now()), (Two{18, 12}));
  EXPECT_EQ((s.scatter_div(rows), now()), (Two{9, 3}));
  EXPECT_EQ((s.scatter_sub(rows), now()), (Two{7, -1}));
  EXPECT_EQ((s.scatter_max(rows), now()), (Two{7, 4}));
  EXPECT_EQ((s.scatter_min(rows), now()), (Two{2, 4}));
}

void expect_last_node_at(int line, const Graph& graph) {
  const Site site = graph.nodes().back().site;
  EXPECT_EQ(std::string(site.file), __FILE__);
  EXPECT_EQ(site.line, line);
}

TEST_F(Sharded, NamesTheCallersLineInAGraph) {
  Graph graph;
  const auto building = graph.as_default();
  ShardedVariable table({part({1, 2}), part({3, 4})}, "table");
  table.assign(zeros({4}));
  expect_last_node_at(__LINE__ - 1, graph);
  table.assign_add(zeros({4}));
  expect_last_node_at(__LINE__ - 1, graph);
  table.assign_sub(zeros({4}));
  expect_last_node_at(__LINE__ - 1, graph);
  table.scatter_update({Tensor({2.f}), Tensor({int64_t{1}}), {4}});
  expect_last_node_at(__LINE__ - 1, graph);
  table.sparse_read(Tensor({1, 3}));
  expect_last_node_at(__LINE__ - 1, graph);
  table.slice({{1, 3}});
  expect_last_node_at(__LINE__ - 1, graph);
  table[1];
  expect_last_node_at(__LINE__ - 1, graph);
}

TEST_F(Sharded, IsJoinedOnceForAllWhoWantATensorOfAGraph) {
  Graph graph;
  const auto building = graph.as_default();
  const ShardedVariable table({part({1, 2}), part({3, 4})}, "table");
  const Variable whole = table;
  Session session;
  session.run(global_variables_initializer());
  const Tensor joined = table;
  EXPECT_EQ(numbers(session.run(joined)), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(Tensor(whole).name(), joined.name());
  EXPECT_NE(table.read_value().name(), joined.name());  // a read of the user's program
  graph.finalize();
  EXPECT_EQ(numbers(session.run(table)), (Floats{1, 2, 3, 4}));
  const Graph::Scope outside(nullptr);
  EXPECT_EQ(table.read_value().name(), joined.name());
}

TEST_F(Sharded, HasAGradientAtEachConversionInAGraph) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable table = ShardedVariable({part({1, 2}), part({3, 4})}, "table");
  Session session;
  session.run(global_variables_initializer());
  for (int i = 0; i < 2; ++i) {
    GradientTape tape;
    const Gradient slope = tape.gradient(sum(table * table), table);
    EXPECT_EQ(numbers(session.run(slope.dense())), (Floats{2, 4, 6, 8}));
  }
}

TEST_F(Sharded, IsInitialisedInAGraphWhenAllShardsAre) {
  Graph graph;
  const auto building = graph.as_default();
  Variable first = part({1, 2}), second = part({3, 4});
  const ShardedVariable table({first, second}, "table");
  const Tensor is_initialised = is_variable_initialized(table);
  const Tensor missing = report_uninitialized_variables({table});
  EXPECT_TRUE(is_variable_initialized(s).to<bool>());  // its values are outside of the graph
  Session session;
  const auto names = [&] { return session.run(missing).to_vector<std::string>(); };
  EXPECT_FALSE(session.run(is_initialised).to<bool>());
  EXPECT_EQ(names(), std::vector<std::string>{"table"});
  session.run(first.assign(zeros({2})));
  EXPECT_FALSE(session.run(is_initialised).to<bool>());
  session.run(second.assign(zeros({2})));
  EXPECT_TRUE(session.run(is_initialised).to<bool>());
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(Sharded, IsToldFromAnotherOfTheSameNameInAReport) {
  Graph graph;
  const auto building = graph.as_default();
  Variable shard = part({1, 2});
  const ShardedVariable known({shard}), unknown({part({3, 4})});
  Session session;
  session.run(shard.assign(zeros({2})));
  EXPECT_EQ(session.run(report_uninitialized_variables({known})).size(), 0);
  EXPECT_EQ(session.run(report_uninitialized_variables({unknown})).size(), 1);
}

TEST_F(Sharded, IsWaitedForUntilItsInitializerHasRun) {
  Graph graph;
  const auto building = graph.as_default();
  const ShardedVariable table({part({1, 2}), part({3, 4})}, "table");
  const internal::SessionManager manager({.ready_op = report_uninitialized_variables({table}),
                                          .local_init_op = global_variables_initializer(),
                                          .recovery_wait = std::chrono::milliseconds(1)});
  const auto session = manager.wait_for_session("", {.max_wait = std::chrono::seconds(60)});
  EXPECT_EQ(numbers(session->run(table)), (Floats{1, 2, 3, 4}));
}

TEST_F(Sharded, ChecksItsShards) {
  using Parts = std::vector<Variable>;
  EXPECT_ERROR(Code::InvalidArgument, "at least one", ShardedVariable(Parts{}));
  EXPECT_ERROR(Code::InvalidArgument, "dtype", ShardedVariable(Parts{part({1}), Variable({1})}));
  EXPECT_ERROR(Code::InvalidArgument, "no rows", ShardedVariable(Parts{Variable(1.f)}));
  EXPECT_ERROR(Code::InvalidArgument, "shape",
               ShardedVariable(Parts{part({1}), Variable({{1.f, 2.f}})}));
  EXPECT_ERROR(Code::InvalidArgument, "trainable",
               ShardedVariable(Parts{part({1}), Variable({1.f}, {.trainable = false})}));
  EXPECT_ERROR(Code::InvalidArgument, "part of another", ShardedVariable(Parts{s.variables()[0]}));
}

TEST_F(Sharded, IsTrainedAsOne) {
  const ShardedVariable table({Variable(ones({3, 2})), Variable(ones({2, 2}))}, "table");
  Variable plain(ones({5, 2}));
  const Tensor ids({4, 0, 4, 2});
  const auto train = [&](const Variable& rows, optim::Optimizer& optimizer) {
    for (int i = 0; i < 3; ++i) {
      GradientTape tape;
      const Tensor loss = sum(square(nn::embedding_lookup(rows, ids))) + sum(rows) * 0.f;
      optimizer.apply_gradients(tape.gradient(loss, std::vector{rows}), {rows});
    }
    return numbers(rows);
  };
  optim::Adagrad a({.learning_rate = 0.1}), b({.learning_rate = 0.1});
  EXPECT_EQ(train(table, a), train(plain, b));
}

TEST_F(Sharded, IsRestoredInOtherParts) {
  const std::string prefix = testing::TempDir() + "/sharded";
  const ShardedVariable two({part({1, 2, 3}), part({4, 5})});
  const std::string saved = Checkpoint({{"table", Variable(two)}}).save(prefix);
  const ShardedVariable three({part({0, 0}), part({0, 0}), part({0})});
  Checkpoint({{"table", Variable(three)}}).restore(saved).assert_consumed();
  EXPECT_EQ(numbers(three), (Floats{1, 2, 3, 4, 5}));
  Variable whole = part({0, 0, 0, 0, 0});
  Checkpoint({{"table", whole}}).restore(saved);
  EXPECT_EQ(numbers(whole), (Floats{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace cohort
