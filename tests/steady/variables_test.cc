// Calls of variables, functions, iterators, graphs and files, made again and again, leave nothing
// behind.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "steady/holdings.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

void drive_all(const Calls& all, int count) {
  for (const auto& [what, call] : all) {
    drive(what, count, process_holdings, [&call](int) { call(); });
  }
}

// The calls that write rows of a variable, whole or in shards.
template <typename V>
Calls calls_of_rows(V& v, const IndexedSlices& rows) {
  return {
      {"scatter_update", [&v, rows] { v.scatter_update(rows); }},
      {"scatter_add", [&v, rows] { v.scatter_add(rows); }},
      {"scatter_sub", [&v, rows] { v.scatter_sub(rows); }},
      {"scatter_mul", [&v, rows] { v.scatter_mul(rows); }},
      {"scatter_div", [&v, rows] { v.scatter_div(rows); }},
      {"scatter_min", [&v, rows] { v.scatter_min(rows); }},
      {"scatter_max", [&v, rows] { v.scatter_max(rows); }},
  };
}

TEST(SteadyCalls, OfAVariableAddNothing) {
  const Tensor whole = ones({8, 2});
  const IndexedSlices rows{ones({2, 2}), Tensor({int64_t{1}, int64_t{6}}), Shape{8, 2}};
  Variable v(whole);
  drive_all(calls_of_rows(v, rows), calls(1000));
  drive_all({{"assign", [&] { v.assign(whole); }},
             {"assign_add", [&] { v.assign_add(whole); }},
             {"assign_sub", [&] { v.assign_sub(whole); }},
             {"assign_sub of a number", [&] { v.assign_sub(1.f); }},
             {"is_initialized", [&] { EXPECT_TRUE(v.is_initialized()); }},
             {"value", [&] { (void)v.value(); }},
             {"one row", [&] { (void)v[1]; }},
             {"deep_copy", [&] { (void)v.deep_copy(); }},
             {"to_string", [&] { (void)v.to_string(); }}},
            calls(1000));
}

TEST(SteadyCalls, OfAShardedVariablesRowsAddNothing) {
  const Tensor whole = ones({8, 2});
  const IndexedSlices rows{ones({2, 2}), Tensor({int64_t{1}, int64_t{6}}), Shape{8, 2}};
  ShardedVariable table({Variable(zeros({4, 2})), Variable(zeros({4, 2}))});
  drive_all(calls_of_rows(table, rows), calls(1000));
  drive_all({{"assign_sub", [&] { table.assign_sub(whole); }},
             {"is_sharded", [&] { EXPECT_TRUE(ShardedVariable::is_sharded(Variable(table))); }}},
            calls(1000));
}

TEST(SteadyCalls, OfAFunctionsBytesAddNothing) {
  const Variable v(2.f, {.name = "v"});
  const auto scale = function([&](const Tensor& x) { return x * v; });
  const std::string bytes = scale.serialize(Tensor(1.f));
  drive_all({{"serialize", [&] { EXPECT_EQ(scale.serialize(Tensor(1.f)).size(), bytes.size()); }},
             {"SerializedFunction",
              [&] {
                const SerializedFunction read(bytes, {{"v", v}});
                EXPECT_EQ(read({Tensor(3.f)})[0].to<float>(), 6.f);
              }}},
            calls(300));
}

TEST(SteadyCalls, OfAnIteratorAddNothing) {
  const auto four = data::range(4);
  data::Iterator endless = four.repeat().iterator();
  drive_all({{"next", [&] { (void)endless.next(); }},
             {"next_optional", [&] { EXPECT_TRUE(endless.next_optional()); }},
             {"next_as_optional",
              [&] { EXPECT_TRUE(endless.next_as_optional().has_value().to<bool>()); }},
             {"element_spec", [&] { EXPECT_TRUE(endless.element_spec()); }},
             {"save", [&] { (void)four.repeat().iterator(endless.save()).next(); }},
             {"for_each", [&] { four.iterator().for_each([](const data::Element&) {}); }},
             {"reduce",
              [&] {
                four.iterator().reduce({Tensor(int64_t{0})},
                                       [](std::span<const Tensor> state, const data::Element& one) {
                                         return std::vector{state[0] + one.tensor()};
                                       });
              }}},
            calls(500));
}

TEST(SteadyCalls, OfAnIteratorInAFunctionAddNothing) {
  const auto four = data::range(4);
  const auto first = function([](data::Iterator it) {
    const auto found = it.next_as_optional();
    return cond(
        found.has_value(), [&] { return found.value().tensor() + int64_t{1}; },
        [] { return Tensor(int64_t{0}); });
  });
  const auto count =
      function([](data::Iterator it) { return it.for_each([](const data::Element&) {}); });
  drive_all({{"next_as_optional", [&] { EXPECT_EQ(first(four.iterator()).to<int64_t>(), 1); }},
             {"for_each", [&] { EXPECT_EQ(count(four.iterator()).to<int64_t>(), 4); }}},
            calls(500));
}

TEST(SteadyCalls, OfATapeAddNothing) {
  const Tensor x(3.f);
  drive("watch, stop_recording and reset", calls(500), process_holdings, [&](int) {
    GradientTape tape;
    tape.watch(x);
    (void)square(x);
    tape.reset();
    tape.watch(x);
    const Tensor y = square(x);
    {
      const auto pause = tape.stop_recording();
      (void)square(y);
    }
    EXPECT_EQ(tape.gradient(y, x).dense().to<float>(), 6.f);
  });
}

TEST(SteadyCalls, OfGraphsThatAreDroppedAddNothing) {
  drive(
      "graphs", calls(200), process_holdings,
      [](int) {
        Graph graph;
        const auto building = graph.as_default();
        const Tensor x = placeholder(kFloat32, {});
        const Variable v(2.f, {.name = "v"});
        const Tensor y = square(x * v);
        EXPECT_TRUE(gradients({y}, std::vector<Tensor>{x})[0].defined());
        EXPECT_TRUE(gradients({y}, std::vector<Variable>{v})[0].defined());
        const Graph read = Graph::deserialize(graph.serialize());
        EXPECT_EQ(read.size(), graph.size());
        EXPECT_FALSE(read.to_dot().empty());
        EXPECT_EQ(read.tensor(y.name()).name(), y.name());
      },
      test::kMoreBytesOfGraphs);
}

TEST(SteadyCalls, OfSafetensorsAddNothing) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/weights.safetensors";
  const std::map<std::string, Tensor> tensors{{"w", ones({100, 10})}};
  drive_all({{"save_safetensors", [&] { save_safetensors(path, tensors); }},
             {"load_safetensors", [&] { EXPECT_EQ(load_safetensors(path).size(), 1u); }}},
            calls(200));
}

TEST(SteadyCalls, OfACheckpointReaderAddNothing) {
  const TemporaryDirectory directory;
  const Variable w(ones({100, 10}), {.name = "w"});
  Checkpoint checkpoint({{"w", w}});
  const std::string path = directory.path() + "/one";
  drive("write and read", calls(50), process_holdings, [&](int) {
    checkpoint.write(path);
    checkpoint.read(path).assert_consumed();
    const CheckpointReader reader(path);
    reader.verify();
    for (const SavedTensor& saved : reader.tensors()) {
      EXPECT_TRUE(reader.contains(saved.name));
      (void)reader.read(saved.name);
      if (saved.shape == w.shape()) (void)reader.read_slice(saved.name, {10, 0}, {5, 10});
    }
    EXPECT_TRUE(checkpoint_exists(path));
    remove_checkpoint(path);
  });
}

}  // namespace
}  // namespace cohort
