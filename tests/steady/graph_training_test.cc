// Queues, supervisors, monitored sessions and synchronous replicas, used again and again, leave
// nothing behind.

#include "cohort/graph_training.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/supervisor.h"
#include "steady/holdings.h"
#include "support/local_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::Holdings;
using test::process_holdings;

Holdings holdings_with(const Graph& graph) {
  Holdings all = process_holdings();
  all["nodes"] = static_cast<int64_t>(graph.size());
  return all;
}

// A queue whose elements go in and out.
void drive_queue(const std::string& target, int count) {
  Graph graph;
  const auto building = graph.as_default();
  FifoQueue queue({.components = {{kFloat32, Shape{}}}});
  const Tensor x = placeholder(kFloat32, {});
  const Tensor rows = placeholder(kFloat32, {3});
  const Tensor enqueue = queue.enqueue({x});
  const Tensor enqueue_many = queue.enqueue_many({rows});
  const Tensor dequeue = queue.dequeue()[0];
  const Tensor dequeue_many = queue.dequeue_many(3)[0];
  Session session(graph, target);
  const auto measure = [&] { return holdings_with(graph); };
  drive("enqueue and dequeue", count, measure, [&](int i) {
    session.run(enqueue, {{x, Tensor(float(i))}});
    EXPECT_EQ(session.run(dequeue).to<float>(), float(i));
  });
  drive("enqueue_many and dequeue_many", count, measure, [&](int) {
    session.run(enqueue_many, {{rows, Tensor({0.f, 0.f, 0.f})}});
    session.run(dequeue_many);
  });
}

TEST(SteadyCalls, OfAQueueAddNothing) { drive_queue("", calls(1000)); }

TEST(SteadyCalls, OfAQueueOnAServerAddNothing) {
  test::LocalCluster cluster(0, 1);
  drive_queue(cluster.target(), calls(300));
}

// A training graph with what watches over it.
struct Watched {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Variable v{1.f, {.name = "v"}};
  Variable step = global_step();
  optim::Sgd sgd{{.learning_rate = 0.1}};
  Tensor loss = square(v);
  Tensor train = sgd.minimize(loss, {v}, step);
};

TEST(SteadyCalls, OfASupervisorAddNothing) {
  Watched here;
  const TemporaryDirectory directory;
  const auto writer = std::make_shared<SummaryWriter>(directory.path());
  Supervisor supervisor({.summary_writer = writer, .summaries = {{"loss", here.loss}}});
  supervisor.managed_session("", [&](Session& session) {
    const auto measure = [&] { return holdings_with(here.graph); };
    drive("steps", calls(1000), measure, [&](int) {
      EXPECT_FALSE(supervisor.should_stop());
      session.run(here.train);
    });
    drive("summary_computed", calls(500), measure, [&](int i) {
      supervisor.summary_computed(session, {{"rate", 1. / (1 + i)}});
      writer->flush();
    });
  });
}

TEST(SteadyCalls, OfSupervisorsThatAreDroppedAddNothing) {
  drive(
      "supervisors", calls(100), process_holdings,
      [](int) {
        Watched here;
        FifoQueue queue({.capacity = 2, .components = {{kFloat32, Shape{}}}});
        const QueueRunner runner(queue, {queue.enqueue({constant(1.f)})});
        const Tensor dequeue = queue.dequeue()[0];
        Supervisor supervisor;
        supervisor.managed_session("", [&](Session& session) {
          EXPECT_EQ(supervisor.start_queue_runners(session, {runner}).size(), 2u);
          session.run({here.train, dequeue});
        });
      },
      test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfAMonitoredSessionAddNothing) {
  Watched here;
  const TemporaryDirectory directory;
  const auto writer = std::make_shared<SummaryWriter>(directory.path());
  summary::scalar("loss", here.loss);
  MonitoredTrainingSession session({.summary_writer = writer,
                                    .summaries = summary::merge_all(),
                                    .save_summaries = {.steps = 10},
                                    .log_step_count_steps = std::nullopt});
  session.manage([&] {
    drive(
        "steps", calls(1000), [&] { return holdings_with(here.graph); },
        [&](int) {
          EXPECT_FALSE(session.should_stop());
          session.run(here.train);
          writer->flush();
        });
  });
}

TEST(SteadyCalls, OfMonitoredSessionsThatAreClosedAddNothing) {
  Watched here;
  Scaffold scaffold;
  scaffold.finalize();  // so that all sessions can use the graph
  drive(
      "sessions", calls(200), [&] { return holdings_with(here.graph); },
      [&](int) {
        MonitoredSession session({.session_creator = std::make_shared<ChiefSessionCreator>(
                                      SessionCreatorOptions{.scaffold = scaffold})});
        session.manage([&] { session.run(here.train); });
      },
      test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfMonitoredSessionsOnAServerAddNothing) {
  test::LocalCluster cluster(0, 1);
  Watched here;
  Scaffold scaffold;
  scaffold.finalize();
  const auto measure = [&] {
    Holdings all = holdings_with(here.graph);
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans);
    all["handles"] = test::session_handles(cluster.server("worker", 0));
    return all;
  };
  drive(
      "sessions", calls(50), measure,
      [&](int) {
        MonitoredSession session(
            {.session_creator = std::make_shared<ChiefSessionCreator>(
                 SessionCreatorOptions{.scaffold = scaffold, .master = cluster.target()})});
        session.manage([&] { session.run(here.train); });
      },
      test::kMoreBytesOfThreads);
}

// One worker, which is the chief: its thread makes the updates.
TEST(SteadyCalls, OfSynchronousReplicasAddNothing) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(1.f, {.name = "v"});
  optim::Sgd sgd{{.learning_rate = 0.1}};
  SyncReplicasOptimizer optimizer(sgd, {.replicas_to_aggregate = 1, .worker_index = 0});
  const Tensor train = optimizer.minimize(square(v), {v}, global_step());
  const Tensor live = optimizer.num_live_workers();
  MonitoredTrainingSession session(
      {.hooks = {optimizer.make_session_run_hook(true)}, .log_step_count_steps = std::nullopt});
  const auto measure = [&] { return holdings_with(graph); };
  session.manage([&] {
    drive(
        "steps", calls(500), measure, [&](int) { session.run(train); }, test::kMoreBytesOfThreads);
    drive("num_live_workers", calls(500), measure,
          [&](int) { EXPECT_EQ(session.raw_session().run(live).to<int64_t>(), 1); });
    drive("mark_left and mark_joined", calls(500), measure, [&](int) {
      optimizer.mark_left(session.raw_session(), 0);
      optimizer.mark_joined(session.raw_session(), 0);
    });
  });
}

TEST(SteadyCalls, OfQueueRunnersAndCoordinatorsThatAreDroppedAddNothing) {
  Graph graph;
  const auto building = graph.as_default();
  FifoQueue queue({.capacity = 2, .components = {{kFloat32, Shape{}}}});
  Tensor passed;
  {
    // Each run takes out one element, so that no run waits for ever and nothing needs a cancel.
    const auto after = control_dependencies({queue.enqueue({constant(1.f)})});
    passed = queue.dequeue()[0];
  }
  const QueueRunner runner({passed, passed}, {.cancel_op = queue.size()});
  Session session(graph);
  drive(
      "queue runners", calls(100), [&] { return holdings_with(graph); },
      [&](int) {
        Coordinator coordinator;
        EXPECT_EQ(runner.create_threads(session, coordinator).size(), 3u);
        EXPECT_EQ(session.run(passed).to<float>(), 1.f);
        coordinator.request_stop();
        coordinator.join();
      },
      test::kMoreBytesOfThreads);
}

TEST(SteadyCalls, OfCoordinatedThreadsAddNothing) {
  Coordinator all;
  drive("stop_on_exception and clear_stop", calls(500), process_holdings, [&](int) {
    all.stop_on_exception([] { throw Error(Code::Aborted, "lost"); });
    EXPECT_EQ(capture_status([&] { all.raise_requested_exception(); }).code, Code::Aborted);
    all.clear_stop();
  });
  drive(
      "threads", calls(500), process_holdings,
      [&](int) {
        EXPECT_TRUE(all.start_thread("short", [] {})->join_for(std::chrono::minutes(1)));
        Coordinator own;
        own.start_loop("loop", std::chrono::hours(1), [] {});
        own.start_thread("failing", [] { throw Error(Code::Aborted, "lost"); });
        own.wait_for_stop();
        EXPECT_EQ(capture_status([&] { own.join(); }).code, Code::Aborted);
      },
      test::kMoreBytesOfThreads);
}

}  // namespace
}  // namespace cohort
