// Questions and runs of a session, asked again and again, leave everything as it was.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <latch>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "steady/holdings.h"
#include "support/local_cluster.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::Holdings;
using test::process_holdings;

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
  ShardedVariable table{{Variable(zeros({4, 2})), Variable(zeros({4, 2}))}, "table"};
  metrics::Mean mean;
  metrics::Auc auc{{.thresholds = 5}};
  FifoQueue queue{{.components = {{kFloat32, Shape{}}}}};
  ConditionalAccumulator accumulator{{.dtype = kFloat32, .shape = {}}};
  optim::Sgd sgd{{.learning_rate = optim::exponential_decay({.initial_rate = 0.1})}};
  Tensor x = placeholder(kFloat32, {});
  Tensor y = v + x;
  Tensor train = sgd.minimize(square(v), {v}, step);
  Session session;

  // All that can be asked without building anything.
  std::vector<std::pair<std::string, std::function<void(int)>>> questions() {
    return {
        {"run(v)", [&](int) { session.run(v); }},
        {"run(v.read_value()) outside the scope",
         [&](int) {
           const Graph::Scope outside(nullptr);
           session.run(v.read_value());
         }},
        {"run(table)", [&](int) { session.run(table); }},
        {"run(table.read_value()) outside the scope",
         [&](int) {
           const Graph::Scope outside(nullptr);
           session.run(table.read_value());
         }},
        {"run(mean.result())", [&](int) { session.run(mean.result()); }},
        {"run(mean.result()) outside the scope",
         [&](int) {
           const Graph::Scope outside(nullptr);
           session.run(mean.result());
         }},
        {"run(auc.result())", [&](int) { session.run(auc.result()); }},
        {"run with feeds",
         [&](int i) {
           session.run(y, {{x, Tensor(float(i))}});
         }},
        {"is_variable_initialized", [&](int) { session.run(is_variable_initialized(v)); }},
        {"is_variable_initialized(table)",
         [&](int) { session.run(is_variable_initialized(table)); }},
        {"report_uninitialized_variables",
         [&](int) { session.run(report_uninitialized_variables()); }},
        {"report_uninitialized_variables({v, table}) outside the scope",
         [&](int) {
           const Graph::Scope outside(nullptr);
           session.run(report_uninitialized_variables({v, table}));
         }},
        {"global_variables_initializer", [&](int) { session.run(global_variables_initializer()); }},
        {"local_variables_initializer", [&](int) { session.run(local_variables_initializer()); }},
        {"global_step()", [&](int) { session.run(global_step()); }},
        {"queue.size()", [&](int) { session.run(queue.size()); }},
        {"num_accumulated()", [&](int) { session.run(accumulator.num_accumulated()); }},
        {"learning_rate()", [&](int) { session.run(sgd.learning_rate()); }},
        {"iterations()", [&](int) { session.run(sgd.iterations()); }},
        {"training steps", [&](int) { session.run(train); }},
        {"list_devices", [&](int) { EXPECT_FALSE(session.list_devices().empty()); }},
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
  for (const auto& [what, call] : here.questions()) {
    drive(
        what, calls(2000), [&] { return here.holdings(); }, call);
  }
}

TEST(SteadyCalls, OfAFinalizedGraphAddNothing) {
  Asked here;
  here.graph.finalize();
  EXPECT_EQ(here.session.run(here.v).to<float>(), 1.f);
  for (const auto& [what, call] : here.questions()) {
    drive(
        what, calls(20), [&] { return here.holdings(); }, call);
  }
}

TEST(SteadyCalls, OfASessionOnAServerAddNothing) {
  test::LocalCluster cluster(1, 1);
  Asked here(cluster.target());
  const auto holdings = [&] {
    Holdings all = here.holdings();
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans);
    all["handles"] = test::session_handles(cluster.server("worker", 0)) +
                     test::session_handles(cluster.server("ps", 0));
    return all;
  };
  for (const auto& [what, call] : here.questions()) drive(what, calls(300), holdings, call);
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

// Each fetches another pair of two tensors of one graph.
TEST(SteadyCalls, WithNewSignaturesOfALocalSessionAddNothing) {
  constexpr int kTensors = 60;
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  std::vector<Tensor> all;
  for (int i = 0; i < kTensors; ++i) all.push_back(x + float(i));
  Session session(graph);
  const auto measure = [&] {
    Holdings holdings = process_holdings();
    holdings["nodes"] = static_cast<int64_t>(graph.size());
    return holdings;
  };
  constexpr int kCalls = 2400;  // after 610 for the plans that a session keeps
  ASSERT_LE(test::all_calls(kCalls), kTensors * kTensors);
  drive("new signatures", kCalls, measure, [&](int i) {
    session.run({all[size_t(i / kTensors)], all[size_t(i % kTensors)]}, {{x, Tensor(1.f)}});
  });
}

TEST(SteadyCalls, OfAServerAddNothing) {
  test::LocalCluster cluster(0, 1);
  Server& server = cluster.server("worker", 0);
  const std::pair<std::string, std::function<void()>> all[] = {
      {"start", [&] { server.start(); }},
      {"status", [&] { EXPECT_EQ(server.status().plans, 0u); }},
      {"server_status", [&] { EXPECT_EQ(server_status(server.target()).plans, 0u); }},
      {"reset", [&] { reset(server.target()); }},
  };
  const auto measure = [&] {
    Holdings holdings = process_holdings();
    holdings["handles"] = test::session_handles(server);
    return holdings;
  };
  for (const auto& [what, call] : all) {
    drive(
        what, calls(100), measure, [&call](int) { call(); }, test::kMoreBytesOfThreads);
  }
}

// Each takes some tenths of a second.
TEST(SteadyCalls, OfServersThatAreStoppedAddNothing) {
  drive(
      "servers", std::min(calls(10), 50), process_holdings,
      [](int) {
        Server server = Server::create_local_server({.start = false});
        server.start();
        EXPECT_EQ(server_status(server.target()).task, "/job:localhost/replica:0/task:0");
        server.stop();
      },
      test::kMoreBytesOfThreads);
}

int64_t open_sockets() {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    const auto target = std::filesystem::read_symlink(entry.path(), closed_meanwhile);
    if (target.string().starts_with("socket:")) ++count;
  }
  return count;
}

// Sessions that are open at the same time share nothing that would outlive them.
TEST(SteadyCalls, SessionsOpenedTogetherLeaveNoDescriptors) {
  // Inside one process, sessions would be connected without sockets.
  const ScopedEnvironment by_sockets(ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "grpc"}});
  test::LocalCluster cluster(1, 1);
  constexpr int kClients = 64;
  const auto open_together = [&](int) {
    std::latch have_run(kClients);
    std::latch may_close(1);
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&] {
        Graph graph;
        const auto building = graph.as_default();
        const Tensor sum = constant(1.f) + constant(2.f);
        Session session(graph, cluster.target());
        EXPECT_EQ(session.run(sum).to<float>(), 3.f);
        have_run.count_down();
        may_close.wait();
        session.close();
      });
    }
    have_run.wait();
    EXPECT_GE(open_sockets(), kClients);
    may_close.count_down();
    for (std::thread& client : clients) client.join();
  };
  const auto holdings = [&] {
    Holdings all = process_holdings();
    all["handles"] = test::session_handles(cluster.server("worker", 0));
    return all;
  };
  drive("64 sessions", std::min(calls(4), 30), holdings, open_together, test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfAnAccumulatorAddNothing) {
  Asked here;
  const Tensor apply = here.accumulator.apply_gradient(here.x, int64_t{1} << 60);  // never stale
  const Tensor take = here.accumulator.take_gradient(2);
  here.session.run(global_variables_initializer());
  drive(
      "apply and take", calls(1000), [&] { return here.holdings(); },
      [&](int i) {
        here.session.run(apply, {{here.x, Tensor(float(i))}});
        here.session.run(apply, {{here.x, Tensor(float(i))}});
        EXPECT_EQ(here.session.run(take).to<float>(), float(i));
      });
}

void drive_abandoned(Asked& here, int count, const std::function<Holdings()>& measure) {
  drive("abandoned partial runs", count, measure, [&](int i) {
    const PartialRun run = here.session.partial_run_setup({here.y, here.train}, {here.x});
    here.session.partial_run(run, here.y, {{here.x, Tensor(float(i))}});
  });
}

TEST(SteadyCalls, OfPartialRunsThatAreAbandonedAddNothing) {
  Asked here;
  drive_abandoned(here, calls(500), [&] { return here.holdings(); });
}

TEST(SteadyCalls, OfPartialRunsThatAreAbandonedOnAServerAddNothing) {
  test::LocalCluster cluster(0, 1);
  Asked here(cluster.target());
  drive_abandoned(here, calls(300), [&] {
    Holdings all = here.holdings();
    const ServerStatus status = cluster.server("worker", 0).status();
    all["plans"] = static_cast<int64_t>(status.plans);
    all["handles"] = static_cast<int64_t>(status.running_steps);
    return all;
  });
}

void drive_saver(Asked& here, int count) {
  const TemporaryDirectory directory;
  Saver saver(SaverVariables{here.v, here.step}, {.max_to_keep = 2});
  drive(
      "save and restore", count, [&] { return here.holdings(); },
      [&](int i) {
        const std::string saved =
            saver.save(here.session, directory.path() + "/model", {.global_step = i});
        saver.restore(here.session, saved);
      });
}

TEST(SteadyCalls, OfASaverAddNothing) {
  Asked here;
  drive_saver(here, calls(50));
}

TEST(SteadyCalls, OfASaverOnAServerAddNothing) {
  test::LocalCluster cluster(0, 1);
  Asked here(cluster.target());
  drive_saver(here, calls(50));
}

}  // namespace
}  // namespace cohort
