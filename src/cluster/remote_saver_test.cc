// Savers over the tasks of a cluster: each task writes and reads its own files.

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/durable_file.h"
#include "checkpoint/saver_restoring.h"
#include "checkpoint/saver_runs.h"
#include "checkpoint/saving.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;

// A variable on each of these tasks, with its number as value.
struct Spread {
  explicit Spread(const std::vector<std::string>& tasks, const SaverOptions& options = {}) {
    for (const std::string& task : tasks) {
      const auto on = device(task);
      const auto number = static_cast<float>(variables.size());
      variables.emplace_back(Tensor({number, number + 0.5f}),
                             VariableOptions{.name = "v" + std::to_string(variables.size())});
      zeroed.push_back(variables.back().assign(zeros({2})));
    }
    initialize = global_variables_initializer();
    saver.emplace(options);
  }

  Floats values(Session& session) const {
    Floats all;
    for (const Variable& variable : variables) {
      for (const float value : session.run(variable).to_vector<float>()) all.push_back(value);
    }
    return all;
  }

  Graph graph;
  Graph::Scope building = graph.as_default();
  std::vector<Variable> variables;
  std::vector<Tensor> zeroed;
  Tensor initialize;
  std::optional<Saver> saver;
};

class ClusterSaver : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  static std::string lost_file() { return "model-7.0123456789abcdef-00000-of-00001.safetensors"; }
  size_t data_files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      count += internal::is_data_file_name(entry.path().filename().string()) ? 1 : 0;
    }
    return count;
  }

  TemporaryDirectory directory_;
};

TEST_F(ClusterSaver, WritesOneFileOnEachTaskThatHasVariables) {
  test::LocalCluster cluster(2, 1);
  Spread model({"/job:ps/task:0", "/job:ps/task:1"}, {.sharded = true});
  Session session(cluster.target());
  session.run(model.initialize);
  model.saver->save(session, path("model"), {.global_step = 5});
  const internal::CheckpointFiles files(path("model-5"));
  ASSERT_EQ(files.manifest().files.size(), 2u);
  EXPECT_EQ(files.manifest().files[1].device, "/job:ps/replica:0/task:1/device:CPU:0");
  session.run(model.zeroed);
  model.saver->restore(session, path("model-5"));
  EXPECT_EQ(model.values(session), (Floats{0, 0.5, 1, 1.5}));
  EXPECT_EQ(latest_checkpoint(directory_.path()), path("model-5"));
}

TEST_F(ClusterSaver, BringsTheValuesHereOtherwise) {
  test::LocalCluster cluster(2, 1);
  Spread model({"/job:ps/task:0", "/job:ps/task:1"});
  Session session(cluster.target());
  session.run(model.initialize);
  model.saver->save(session, path("model"));
  EXPECT_EQ(CheckpointReader(path("model")).files().size(), 1u);
  session.run(model.zeroed);
  model.saver->restore(session, path("model"));
  EXPECT_EQ(model.values(session), (Floats{0, 0.5, 1, 1.5}));
}

TEST_F(ClusterSaver, KeepsTheLastFewWhileTheProgramGoesOn) {
  test::LocalCluster cluster(2, 1);
  Spread model({"/job:ps/task:0", "/job:ps/task:1"},
               {.max_to_keep = 2, .sharded = true, .asynchronous = true});
  Session session(cluster.target());
  session.run(model.initialize);
  for (int64_t step = 0; step < 4; ++step) {
    model.saver->save(session, path("model"), {.global_step = step});
    session.run(model.zeroed);
  }
  model.saver->wait();
  EXPECT_FALSE(checkpoint_exists(path("model-1")));
  model.saver->restore(session, path("model-3"));
  EXPECT_EQ(latest_checkpoint(directory_.path()), path("model-3"));
}

// What a task wrote for a checkpoint that was never finished is deleted there, also when the task
// was away at the time.
TEST_F(ClusterSaver, DeletesWhatAFailedSaveLeftOnTasks) {
  test::LocalCluster cluster(2, 1);
  Spread model({"/job:ps/task:0", "/job:ps/task:1"}, {.sharded = true});
  const internal::SaverGraph nodes(internal::items_of(model.variables, {}), {}, Site::here());
  std::filesystem::create_directories(path("model.manifest.json/in the way"));
  {
    Session session(cluster.target());
    session.run(model.initialize);
    EXPECT_ERROR(Code::FailedPrecondition, "model.manifest.json",
                 model.saver->save(session, path("model")));
    EXPECT_EQ(data_files(), 0u);
    // A file that is not here is one of the task's own disk.
    const internal::ShardRuns runs(session, nodes);
    const internal::SaveIntent gone(
        path("model-7"), "0123456789abcdef",
        {{.name = lost_file(), .device = "/job:ps/replica:0/task:1/device:CPU:0"}});
    cluster.stop("ps", 1);
    EXPECT_FALSE(runs.remove(directory_.path(),
                             {{.name = lost_file(), .device = "/job:ps/replica:0/task:1"}}));
  }
  cluster.start("ps", 1);
  Session session(cluster.target());
  session.run(model.initialize);
  EXPECT_TRUE(std::filesystem::exists(path("model-7.0123456789abcdef.saving")));
  model.saver->save(session, path("other"));
  EXPECT_FALSE(std::filesystem::exists(path("model-7.0123456789abcdef.saving")));
}

TEST_F(ClusterSaver, RestoresWithAnotherNumberOfTasks) {
  {
    test::LocalCluster cluster(3, 1);
    Spread model({"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"}, {.sharded = true});
    Session session(cluster.target());
    session.run(model.initialize);
    model.saver->save(session, path("model"));
  }
  test::LocalCluster cluster(1, 2);
  Spread model({"/job:ps/task:0", "/job:ps/task:0", "/job:worker/task:1"}, {.sharded = true});
  Session session(cluster.target());
  session.run(model.initialize);
  session.run(model.zeroed);
  model.saver->restore(session, path("model"));
  EXPECT_EQ(model.values(session), (Floats{0, 0.5, 1, 1.5, 2, 2.5}));
}

TEST_F(ClusterSaver, ReadsFilesThatOnlyTheTasksSee) {
  test::LocalCluster cluster(2, 1);
  Spread model({"/job:ps/task:0", "/job:ps/task:1"}, {.sharded = true});
  const internal::SaverGraph nodes(internal::items_of(model.variables, {}), {}, Site::here());
  Session session(cluster.target());
  session.run(model.initialize);
  model.saver->save(session, path("model"));
  const internal::CheckpointFiles files(path("model"));
  internal::TaskSource source(session, nodes, "/nowhere", directory_.path());
  EXPECT_EQ(files.read("v1", internal::whole_of({2}), source).to_vector<float>(), (Floats{1, 1.5}));
  session.run(model.zeroed);
  for (const internal::SaverGraph::Shard& shard : nodes.writers()) {
    EXPECT_TRUE(internal::restore_in_place(session, nodes, shard, files)) << shard.device;
  }
  EXPECT_EQ(model.values(session), (Floats{0, 0.5, 1, 1.5}));
  std::filesystem::remove(files.path_of(files.manifest().files[1]));
  EXPECT_ERROR(Code::NotFound, "shard_devices", model.saver->restore(session, path("model")));
}

}  // namespace
}  // namespace cohort
