// Questions and runs of a session, asked again and again, leave everything as it was.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "cohort/cohort.h"
#include "steady/holdings.h"
#include "support/local_cluster.h"
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
  FifoQueue queue{{.dtypes = {kFloat32}, .shapes = {Shape{}}}};
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

// Sessions that are opened at the same time share nothing that would outlive them.
TEST(SteadyCalls, SessionsOpenedTogetherLeaveNoDescriptors) {
  test::LocalCluster cluster(1, 1);
  const auto open_together = [&](int) {
    std::vector<std::thread> clients;
    for (int i = 0; i < 64; ++i) {
      clients.emplace_back([&] {
        Graph graph;
        const auto building = graph.as_default();
        const Tensor sum = constant(1.f) + constant(2.f);
        Session session(graph, cluster.target());
        EXPECT_EQ(session.run(sum).to<float>(), 3.f);
        session.close();
      });
    }
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
