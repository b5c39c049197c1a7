// Calls that a program makes again and again leave everything as it was: nodes of graphs, plans and
// state of servers, descriptors, threads and memory.

#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <functional>

#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

int64_t entries_in(const char* directory) {
  const std::filesystem::directory_iterator first(directory);
  return std::distance(first, std::filesystem::directory_iterator());
}

// What this process holds, by name.
using Holdings = std::map<std::string, int64_t>;

// What one kind of call is allowed to add, over all calls.
constexpr int64_t kMoreBytes = 400'000;
// Graphs of functions that are gone grow for a while before they are replaced.
constexpr int64_t kMoreBytesOfGraphs = 3'000'000;
constexpr int64_t kMorePlans = 8;
constexpr int64_t kMoreThreads = 4;
constexpr int64_t kMoreDescriptors = 4;

Holdings process_holdings() {
  const struct mallinfo2 heap = mallinfo2();
  return {{"bytes", static_cast<int64_t>(heap.uordblks + heap.hblkhd)},
          {"descriptors", entries_in("/proc/self/fd")},
          {"threads", entries_in("/proc/self/task")}};
}

void expect_flat(const std::string& what, const Holdings& before, const Holdings& after,
                 int64_t more_bytes) {
  const Holdings allowed{{"bytes", more_bytes},
                         {"descriptors", kMoreDescriptors},
                         {"threads", kMoreThreads},
                         {"plans", kMorePlans},
                         {"nodes", 0}};
  for (const auto& [name, count] : after) {
    EXPECT_LE(count - before.at(name), allowed.at(name)) << name << " of " << what;
  }
}

using Measure = std::function<Holdings()>;

// Calls `call` often enough that what is kept for good is there, then `count` times more.
void drive(const std::string& what, int count, const Measure& measure,
           const std::function<void(int)>& call, int64_t more_bytes = kMoreBytes) {
  SCOPED_TRACE(what);
  const int warm_up = count / 4 + 10;
  for (int i = 0; i < warm_up; ++i) call(i);
  const Holdings before = measure();
  for (int i = 0; i < count; ++i) call(warm_up + i);
  expect_flat(what, before, measure(), more_bytes);
}

// A graph with one of each thing that can be asked, and a session.
struct Asked {
  explicit Asked(const std::string& target = "") : session(graph, target) {
    session.run(global_variables_initializer());
    session.run(local_variables_initializer());
  }

  Holdings holdings() const {
    Holdings all = process_holdings();
    all["nodes"] = static_cast<int64_t>(graph.size());
    return all;
  }

  Graph graph;
  Graph::Scope building = graph.as_default();
  Variable v{1.f, {.name = "v"}};
  Variable step = global_step();
  Variable local = local_variable([] { return Tensor(1.f); }, {.name = "local"});
  FifoQueue queue{{.dtypes = {kFloat32}, .shapes = {Shape{}}}};
  ConditionalAccumulator accumulator{{.dtype = kFloat32, .shape = {}}};
  optim::Sgd sgd{{.learning_rate = optim::exponential_decay({.initial_rate = 0.1})}};
  Tensor x = placeholder(kFloat32, {});
  Tensor y = v + x;
  Tensor train = sgd.minimize(square(v), {v}, step);
  Session session;

  // All that can be asked without building anything.
  std::vector<std::pair<std::string, std::function<void(int)>>> calls() {
    return {
        {"run(v)", [&](int) { session.run(v); }},
        {"run(v.read_value()) outside the scope",
         [&](int) {
           const Graph::Scope outside(nullptr);
           session.run(v.read_value());
         }},
        {"run with feeds",
         [&](int i) {
           session.run(y, {{x, Tensor(float(i))}});
         }},
        {"is_variable_initialized", [&](int) { session.run(is_variable_initialized(v)); }},
        {"report_uninitialized_variables",
         [&](int) { session.run(report_uninitialized_variables()); }},
        {"global_variables_initializer", [&](int) { session.run(global_variables_initializer()); }},
        {"local_variables_initializer", [&](int) { session.run(local_variables_initializer()); }},
        {"global_step()", [&](int) { session.run(global_step()); }},
        {"queue.size()", [&](int) { session.run(queue.size()); }},
        {"num_accumulated()", [&](int) { session.run(accumulator.num_accumulated()); }},
        {"learning_rate()", [&](int) { session.run(sgd.learning_rate()); }},
        {"iterations()", [&](int) { session.run(sgd.iterations()); }},
        {"training steps", [&](int) { session.run(train); }},
        {"make_callable", [&](int i) { session.make_callable({x}, {y})({Tensor(float(i))}); }},
        {"partial_run",
         [&](int i) {
           const PartialRun run = session.partial_run_setup({y, train}, {x});
           session.partial_run(run, y, {{x, Tensor(float(i))}});
           session.partial_run(run, train);
         }},
    };
  }
};

TEST(SteadyCalls, OfALocalSessionAddNothing) {
  Asked here;
  for (const auto& [what, call] : here.calls()) {
    drive(
        what, 2000, [&] { return here.holdings(); }, call);
  }
}

TEST(SteadyCalls, OfAFinalizedGraphAddNothing) {
  Asked here;
  here.graph.finalize();
  EXPECT_EQ(here.session.run(here.v).to<float>(), 1.f);
  for (const auto& [what, call] : here.calls()) {
    drive(
        what, 20, [&] { return here.holdings(); }, call);
  }
}

TEST(SteadyCalls, OfASessionOnAServerAddNothing) {
  test::LocalCluster cluster(1, 1);
  Asked here(cluster.target());
  const auto holdings = [&] {
    Holdings all = here.holdings();
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans);
    return all;
  };
  for (const auto& [what, call] : here.calls()) drive(what, 300, holdings, call);
}

// The servers keep the plans of the signatures that a session used last, and no others.
TEST(SteadyCalls, WithNewSignaturesKeepTheLatestPlans) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  const auto building = graph.as_default();
  std::optional<Variable> v;
  {
    const auto on = device("/job:ps/task:0");
    v.emplace(0.f, VariableOptions{.name = "v"});
  }
  Session session(graph, cluster.target());
  session.run(global_variables_initializer());
  for (int i = 0; i < 400; ++i) session.run(*v + float(i));
  for (const auto& [job, index] : {std::pair{"worker", 0}, {"ps", 0}}) {
    EXPECT_LE(cluster.server(job, index).status().plans, 257u) << job;
    EXPECT_GE(cluster.server(job, index).status().plans, 200u) << job;
  }
  EXPECT_EQ(session.run(*v + 1.f).to<float>(), 1.f);
}

// A chief, a parameter server and a worker.
struct Coordinated : test::CoordinatedCluster {
  Coordinated() : CoordinatedCluster(1, 1), coordinator(strategy) {}

  Holdings holdings() {
    Holdings all = process_holdings();
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans +
                                        cluster.server("ps", 0).status().plans);
    return all;
  }

  ClusterCoordinator coordinator;
  Variable v = strategy.create([] { return Variable(0.f, {.name = "v"}); });
};

TEST(SteadyCalls, OfACoordinatorAddNothing) {
  Coordinated here;
  const auto measure = [&] { return here.holdings(); };
  const auto add = function([&](Tensor by) { here.v.assign_add(by); });
  drive("schedule(function)", 2000, measure, [&](int) {
    here.coordinator.schedule(add, Tensor(1.f));
    here.coordinator.join();
  });
  drive(
      "schedule(lambda)", 400, measure,
      [&](int i) {
        here.coordinator.schedule([&] { here.v.assign_add(float(i)); });
        here.coordinator.join();
      },
      kMoreBytesOfGraphs);
  const auto take = function([](data::Iterator it) { return it.next().tensor(); });
  drive(
      "iterators that are dropped", 200, measure,
      [&](int) {
        const auto it = here.coordinator.create_per_worker_dataset(data::range(4)).iterator();
        (void)here.coordinator.fetch(here.coordinator.schedule(take, it));
      },
      kMoreBytesOfGraphs);
  drive(
      "variables that are dropped", 200, measure,
      [&](int) {
        const Variable large = here.strategy.create([] { return Variable(zeros({10'000})); });
        EXPECT_EQ(here.strategy.plan().variables.size(), 2u);
      },
      kMoreBytesOfGraphs);
  drive("reading a variable", 1000, measure, [&](int) { (void)here.v.read_value(); });
  drive("assigning a variable", 1000, measure, [&](int i) { here.v.assign(float(i)); });
}

}  // namespace
}  // namespace cohort
