// Savers that write a file for each device.

#include <fstream>

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/saving.h"
#include "support/saver_fixture.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

class ShardedSaverTest : public SaverTest {
 protected:
  static void SetUpTestSuite() { internal::ensure_cpu_devices(3); }

  // Two variables on each of two devices, one anywhere.
  static std::vector<Variable> spread_variables(float value) {
    std::vector<Variable> variables;
    for (const char* place : {"/device:CPU:1", "/device:CPU:2"}) {
      const auto on = device(place);
      variables.emplace_back(value + 1, VariableOptions{.name = "a"});
      variables.emplace_back(Tensor({value, value}), VariableOptions{.name = "b"});
    }
    variables.emplace_back(value, VariableOptions{.name = "anywhere"});
    return variables;
  }

  // Their graph, with values, and what saves it.
  struct SpreadModel {
    Graph graph;
    Graph::Scope building = graph.as_default();
    std::vector<Variable> variables = spread_variables(10);
    Saver saver{SaverOptions{.sharded = true}};
    Session session;

    SpreadModel() { session.run(global_variables_initializer()); }
  };
};

TEST_F(ShardedSaverTest, WritesOneFileForEachDevice) {
  Graph graph;
  const auto building = graph.as_default();
  const std::vector<Variable> variables = spread_variables(10);
  Saver saver({.sharded = true});
  Session session;
  session.run(global_variables_initializer());
  saver.save(session, path("model"), {.global_step = 3});
  EXPECT_EQ(count_ending(directory(), ".safetensors"), 3u);
  const internal::Manifest manifest = internal::parse_manifest(
      internal::ReadFile(path("model-3.manifest.json")).read_all(1 << 20), "m");
  ASSERT_EQ(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.files[1].device, "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(manifest.step, 3);
  for (const Variable& variable : variables)
    session.run(Variable(variable).assign(zeros(variable.shape())));
  saver.restore(session, path("model-3"));
  EXPECT_EQ(session.run(variables[0]).to<float>(), 11);
  EXPECT_EQ(session.run(variables[3]).to_vector<float>(), (Floats{10, 10}));
  EXPECT_EQ(session.run(variables[4]).to<float>(), 10);
  EXPECT_EQ(saver.progress().bytes_written, 2 * 4 + 2 * 8 + 4);
}

TEST_F(ShardedSaverTest, DeletesAllFilesOfOldCheckpoints) {
  Graph graph;
  const auto building = graph.as_default();
  const std::vector<Variable> variables = spread_variables(1);
  Saver saver({.max_to_keep = 2, .sharded = true, .asynchronous = true});
  Session session;
  session.run(global_variables_initializer());
  for (const int64_t step : {1, 2, 3, 3, 4}) {
    saver.save(session, path("model"), {.global_step = step});
  }
  saver.wait();
  EXPECT_EQ(saver.last_checkpoints(), (Names{path("model-3"), path("model-4")}));
  EXPECT_EQ(count_ending(directory(), ".safetensors"), 6u);
  EXPECT_EQ(count_ending(directory(), ".manifest.json"), 2u);
  EXPECT_EQ(latest_checkpoint(directory()), path("model-4"));
}

TEST_F(ShardedSaverTest, HoldsTheValuesOfTheMoment) {
  Graph graph;
  const auto building = graph.as_default();
  std::vector<Variable> variables = spread_variables(0);
  const Tensor add = variables[1].assign_add(Tensor(1.f));
  Saver saver({.sharded = true, .asynchronous = true});
  Session session;
  session.run(global_variables_initializer());
  for (int64_t step = 0; step < 4; ++step) {
    saver.save(session, path("model"), {.global_step = step});
    session.run(add);
  }
  saver.wait();
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(CheckpointReader(path("model-" + std::to_string(step))).read("b").at<float>({0}),
              static_cast<float>(step));
  }
}

TEST_F(ShardedSaverTest, RestoresToOtherDevicesAndOthersCheckpoints) {
  {
    Graph graph;
    const auto building = graph.as_default();
    spread_variables(10);
    Saver saver({.sharded = true});
    Session session;
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  Graph graph;
  const auto building = graph.as_default();
  Variable a(0.f, {.name = "a_1"});
  const Variable b({0.f, 0.f}, {.name = "b"});
  Saver saver;
  Session session;
  saver.restore(session, path("model"));
  EXPECT_EQ(session.run(a).to<float>(), 11);
}

TEST_F(ShardedSaverTest, LeavesNoFilesWhenAShardFails) {
  SpreadModel model;
  std::ofstream(path("file")) << "in the way";
  EXPECT_ERROR(Code::FailedPrecondition, "file",
               model.saver.save(model.session, path("file/model")));
  model.saver.save(model.session, path("model"));
  EXPECT_EQ(count_ending(directory(), ".safetensors"), 3u);
}

TEST_F(ShardedSaverTest, LeavesNoFilesWhenTheManifestFails) {
  SpreadModel model;
  std::filesystem::create_directories(path("model.manifest.json/in the way"));
  EXPECT_ERROR(Code::FailedPrecondition, "model.manifest.json",
               model.saver.save(model.session, path("model")));
  EXPECT_EQ(count_ending(directory(), ".safetensors"), 0u);
  EXPECT_EQ(count_ending(directory(), ".saving"), 0u);
}

// A program died after its files were written and before its manifest was, or just after it.
TEST_F(ShardedSaverTest, DeletesTheFilesOfSavesThatWereNotFinished) {
  SpreadModel model;
  model.saver.save(model.session, path("model"), {.global_step = 1});
  const std::vector<internal::SavedFile> finished =
      internal::CheckpointFiles(path("model-1")).manifest().files;
  const std::string lost = "model-2.0123456789abcdef-00000-of-00001.safetensors";
  ASSERT_TRUE(internal::is_data_file_name(lost));
  std::ofstream(path(lost)) << "half a checkpoint";
  for (const auto& [step, files] :
       std::map<int, std::vector<internal::SavedFile>>{{1, finished}, {2, {{.name = lost}}}}) {
    internal::SaveIntent(path("model-" + std::to_string(step)), "0123456789abcdef", files);
  }
  const internal::SaveIntent alive(path("model-3"), "0123456789abcdef", {{.name = "model-3"}});
  EXPECT_EQ(count_ending(directory(), ".saving"), 3u);
  model.saver.save(model.session, path("model"), {.global_step = 4});
  EXPECT_FALSE(std::filesystem::exists(path(lost)));
  EXPECT_EQ(count_ending(directory(), ".saving"), 1u);  // of the one that lives
  CheckpointReader(path("model-1")).verify();
  CheckpointReader(path("model-4")).verify();
}

TEST_F(ShardedSaverTest, SaysWhenTheSessionIsClosed) {
  SpreadModel model;
  model.session.close();
  EXPECT_ERROR(Code::FailedPrecondition, "closed", model.saver.save(model.session, path("model")));
}

TEST_F(ShardedSaverTest, AFileThatNobodyHasIsNamed) {
  SpreadModel model;
  model.saver.save(model.session, path("model"));
  std::filesystem::remove(CheckpointReader(path("model")).files()[1]);
  EXPECT_ERROR(Code::NotFound, "shard_devices", model.saver.restore(model.session, path("model")));
  EXPECT_EQ(latest_checkpoint(directory()), std::nullopt);
}

}  // namespace
}  // namespace cohort
