#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/monitored_session.h"
#include "cohort/queue.h"
#include "cohort/replica_device_setter.h"
#include "cohort/supervisor.h"
#include "cohort/sync_replicas.h"
#include "errors/catalogue.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

// Runs `body` while a new graph is built.
template <typename Body>
auto in_graph(Body body) {
  return [body] {
    Graph graph;
    const auto building = graph.as_default();
    body(graph);
  };
}

TEST(Errors, OfFunctionsAndGraphs) {
  check_section(
      "Functions and graphs",
      {
          {[] {
            function([](const Tensor& x) { return x.to<float>() > 0 ? x : neg(x); })(Tensor(1.f));
          }},
          {[] {
            function([](const Tensor& x) {
              for (const data::Element& element : data::range(3)) (void)element;
              return x;
            })(Tensor(1.f));
          }},
          {[] { placeholder(kFloat32); }},
          {in_graph([](Graph& graph) {
             graph.finalize();
             constant(1.f);
           }),
           "Build the whole graph before `finalize()`."},
          {in_graph([](Graph&) {
            Graph other;
            const Tensor x = constant(1.f);
            const auto building = other.as_default();
            (void)(x + constant(2.f));
          })},
          {in_graph([](Graph& graph) { graph.tensor("layer/output"); }),
           "`graph.nodes()` lists the names."},
          {in_graph([](Graph&) { const NameScope scope("my layer"); })},
          {in_graph([](Graph&) {
             const Tensor yes = constant(1.f);
             cond(
                 constant(true), [&] { return std::vector<Tensor>{yes}; },
                 [&] {
                   return std::vector<Tensor>{yes, yes};
                 });
           }),
           "Return the same tensors from both branches."},
          {in_graph([](Graph&) {
             while_loop([](auto state) { return state[0] < 10.f; },
                        [](auto state) {
                          return std::vector<Tensor>{concat({state[0], state[0]}, 0)};
                        },
                        {ones({1})});
           }),
           "Return the state with its dtypes and shapes."},
          {in_graph([](Graph&) {
            const Variable v = get_variable("v", {.shape = {2}});
            get_variable("v", {.shape = {2}});
          })},
          {in_graph([](Graph&) { get_variable("v", {.reuse = Reuse::Yes}); })},
          {in_graph([](Graph&) { gradients({}, {constant(1.f)}); })},
          {[] { call_native("no_such_function", {}, {{kFloat32}}); }},
          {[] { Graph::deserialize("garbage"); },
           "Give the bytes that `Graph::serialize()` returned."},
          {in_graph([](Graph&) { FifoQueue({.capacity = 0, .components = {{kFloat32}}}); })},
      });
}

TEST(Errors, OfSessions) {
  check_section(
      "Sessions",
      {
          {in_graph([](Graph&) {
             const Tensor x = placeholder(kFloat32, {2}, "x");
             Session().run(x * 2.f);
           }),
           "Feed it: `session.run(y, {{x, value}})`."},
          {in_graph([](Graph&) {
             const Tensor x = placeholder(kFloat32, {2}, "x");
             Session().run(x * 2.f, {{x, Tensor({1.f, 2.f, 3.f})}});
           }),
           "Feed a value of the placeholder's shape."},
          {in_graph([](Graph&) {
             const Tensor x = placeholder(kFloat32, {2}, "x");
             Session().run(x * 2.f, {{x, Tensor({1, 2})}});
           }),
           "`cast()` the value first."},
          {in_graph([](Graph&) {
            const Variable v(1.f, {.name = "v"});
            Session().run(v.read_value());
          })},
          {in_graph([](Graph&) {
             const auto scope = device("/gpu:99");
             const Tensor y = constant(1.f) + 1.f;
             Session().run(y);
           }),
           "Choose a device of the list, or set `SessionOptions::allow_soft_placement`."},
          {in_graph([](Graph&) {
             const auto scope = device("/job:ps/task:7");
             const Tensor y = constant(1.f) + 1.f;
             Session().run(y);
           }),
           "Give the session the target of a server of that cluster."},
          {[] {
             Graph graph;
             Session session(graph);
             session.run(Tensor(1.f));
           },
           "Fetch tensors of the session's graph."},
          {in_graph([](Graph&) {
            const Tensor x = constant(1.f);
            Session session;
            session.close();
            session.run(x);
          })},
          {in_graph([](Graph&) { Session("local"); })},
          {in_graph([](Graph&) {
             FifoQueue queue({.components = {{kFloat32}}, .name = "queue"});
             Session().run(queue.dequeue()[0], {}, {.timeout = std::chrono::milliseconds(50)});
           }),
           "Look for what the run waits for, here a queue that stays empty, or allow more time."},
          {in_graph([](Graph&) {
             const Tensor x = placeholder(kFloat32, {}, "x");
             const Tensor y = neg(x);
             Session session;
             const PartialRun run = session.partial_run_setup({y}, {x});
             session.partial_run(run, y);
           }),
           "Feed it in this piece or in an earlier one."},
      });
}

TEST(Errors, OfGraphTraining) {
  const TemporaryDirectory directory;
  optim::Sgd sgd;
  check_section(
      "Training with graphs: hooks, supervisor, synchronous replicas",
      {
          {in_graph([](Graph&) {
            const Variable v(1.f, {.name = "weights"});
            Supervisor({.is_chief = false});
          })},
          {in_graph([](Graph&) {
            const auto scope = device("/job:worker/task:0");
            Supervisor();
          })},
          {in_graph([](Graph&) { replica_device_setter({.ps_tasks = -1}); })},
          {in_graph([&](Graph&) { SyncReplicasOptimizer(sgd, {.replicas_to_aggregate = 0}); })},
          {in_graph([&](Graph&) {
            const Variable v(1.f, {.name = "v"});
            SyncReplicasOptimizer(sgd).apply_gradients({constant(1.f)}, {v});
          })},
          {in_graph([&](Graph&) {
            SyncReplicasOptimizer optimizer(sgd);
            optimizer.make_session_run_hook(true);
          })},
          {in_graph([](Graph&) {
             const Variable v(1.f, {.name = "v"});
             MonitoredTrainingSession(
                 {.is_chief = false, .max_wait = std::chrono::milliseconds(500)});
           }),
           "Start the chief, which initialises the variables, or wait longer."},
          {in_graph([](Graph&) {
            const Variable v(1.f, {.name = "v"});
            MonitoredSession({.hooks = {nullptr}});
          })},
          {in_graph([](Graph&) {
            const Tensor x = constant(1.f);
            MonitoredSession session;
            session.close();
            session.run(x);
          })},
          {in_graph([](Graph&) { Saver(); })},
      });
}

}  // namespace
}  // namespace cohort::test
