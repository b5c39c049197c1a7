// Metrics and event files, used again and again, leave nothing behind.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/event_file.h"
#include "steady/holdings.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

struct AllMetrics {
  metrics::Mean mean;
  metrics::Accuracy accuracy;
  metrics::SparseCategoricalAccuracy sparse;
  metrics::Auc auc{{.thresholds = 20}};

  void update() {
    const Tensor labels({1.f, 0.f});
    mean.update(labels);
    accuracy.update(labels, labels);
    sparse.update(Tensor({int64_t{1}, int64_t{0}}), zeros({2, 2}));
    auc.update(labels, Tensor({0.75f, 0.25f}));
  }
  void read() const {
    for (const metrics::Metric* metric :
         std::initializer_list<const metrics::Metric*>{&mean, &accuracy, &sparse, &auc}) {
      (void)metric->result();
    }
  }
  void reset() {
    for (metrics::Metric* metric :
         std::initializer_list<metrics::Metric*>{&mean, &accuracy, &sparse, &auc}) {
      metric->reset();
    }
  }
};

TEST(SteadyCalls, OfMetricsAddNothing) {
  AllMetrics all;
  drive("update", calls(500), process_holdings, [&](int) { all.update(); });
  drive("result", calls(500), process_holdings, [&](int) { all.read(); });
  drive("reset", calls(500), process_holdings, [&](int) { all.reset(); });
  drive("metrics that are dropped", calls(200), process_holdings, [](int) {
    AllMetrics dropped;
    dropped.update();
    dropped.read();
  });
}

TEST(SteadyCalls, OfMetricsOfReplicasAddNothing) {
  MirroredStrategy strategy{"CPU:0", "CPU:1"};
  const StrategyScope scope = strategy.scope();
  AllMetrics all;
  drive("update, result and reset", calls(200), process_holdings, [&](int) {
    strategy.run([&] { all.update(); });
    all.read();
    all.reset();
  });
}

TEST(SteadyCalls, OfASummaryWriterAddNothing) {
  const TemporaryDirectory directory;
  SummaryWriter writer(directory.path());
  const Tensor picture = zeros({2, 2});
  // What was not flushed is in memory.
  const auto drive_writer = [&](const std::string& what, const std::function<void(int)>& add) {
    drive(what, calls(500), process_holdings, [&](int i) {
      add(i);
      if (i % 10 == 9) writer.flush();
    });
    writer.flush();
  };
  drive_writer("add_scalar", [&](int i) { writer.add_scalar("loss", i, i); });
  drive_writer("add_histogram", [&](int i) { writer.add_histogram("weights", picture, i); });
  drive_writer("add_image", [&](int i) { writer.add_image("picture", picture, i); });
  Graph graph;
  {
    const auto building = graph.as_default();
    (void)square(placeholder(kFloat32, {}));
  }
  drive_writer("add_graph", [&](int) { writer.add_graph(graph); });
  drive_writer("add_text", [&](int i) { writer.add_text("note", "text", i); });
}

TEST(SteadyCalls, OfEventFilesThatAreClosedAddNothing) {
  drive("event files", calls(200), process_holdings, [](int i) {
    const TemporaryDirectory directory;
    SummaryWriter writer(directory.path());
    writer.add_scalar("loss", 1, i);
    writer.close();
    EXPECT_EQ(read_events(writer.path()).size(), 1u);
  });
}

}  // namespace
}  // namespace cohort
