// Files that only the tasks that wrote them can see. Here the devices of one process stand for
// tasks, and what cannot be seen is a directory of another name.

#include "checkpoint/saver_restoring.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/saver_runs.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

// The rows of a table of 5 rows, in parts on two devices.
std::vector<SavedPart> parts_of_table() {
  std::vector<SavedPart> parts;
  const auto add = [&](const char* place, const Tensor& value, int64_t begin) {
    const auto on = device(place);
    parts.push_back({"table", Variable(value, {.name = "part"}), {5, 2}, {begin, 0}});
  };
  add("/device:CPU:1", Tensor({{0.f, 1.f}, {2.f, 3.f}, {4.f, 5.f}}), 0);
  add("/device:CPU:2", Tensor({{6.f, 7.f}, {8.f, 9.f}}), 3);
  return parts;
}

class TaskSourceTest : public ::testing::Test {
 protected:
  TaskSourceTest() {
    ensure_cpu_devices(3);
    const auto building = graph_.as_default();
    nodes_ = std::make_unique<SaverGraph>(items_of(SaverVariables(), parts_of_table()),
                                          SaverOptions{}, Site::here());
    session_ = std::make_unique<Session>();
    session_->run(global_variables_initializer());
    std::vector<Tensor> holds;
    for (const SaverGraph::Shard& shard : nodes_->writers()) holds.push_back(shard.hold);
    session_->run(holds);
    ShardRuns(*session_, *nodes_).write(prefix(), 1);
  }

  std::string prefix() const { return directory_.path() + "/model"; }
  TaskSource far_source() { return {*session_, *nodes_, "/nowhere", directory_.path()}; }

  TemporaryDirectory directory_;
  Graph graph_;
  std::unique_ptr<SaverGraph> nodes_;
  std::unique_ptr<Session> session_;
};

TEST_F(TaskSourceTest, PutsTensorsTogetherFromWhatTheTasksRead) {
  const CheckpointFiles files(prefix());
  ASSERT_EQ(files.manifest().files.size(), 2u);
  TaskSource source = far_source();
  EXPECT_EQ(files.read("table", whole_of({5, 2}), source).to_vector<int>(),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(files.read("table", {{2, 1}, {2, 1}}, source).to_vector<int>(),
            (std::vector<int>{5, 7}));
}

TEST_F(TaskSourceTest, ComparesChecksumsOfWhatComes) {
  const CheckpointFiles files(prefix());
  std::fstream bytes(files.path_of(files.manifest().files[1]),
                     std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(-1, std::ios::end);
  bytes.put('!');
  bytes.close();
  TaskSource source = far_source();
  EXPECT_ERROR(Code::DataLoss, "tensor 'table' in", files.read("table", whole_of({5, 2}), source));
  EXPECT_EQ(files.read("table", {{0, 0}, {1, 2}}, source).to_vector<int>(),
            (std::vector<int>{0, 1}));
}

TEST_F(TaskSourceTest, SaysWhatATaskFindsWrong) {
  const CheckpointFiles files(prefix());
  const std::string path = files.path_of(files.manifest().files[0]);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  TaskSource source = far_source();
  EXPECT_ERROR(Code::DataLoss, "cut off", files.read("table", whole_of({5, 2}), source));
}

TEST_F(TaskSourceTest, IsNotNeededWhereDevicesHaveTheirOwnFile) {
  const CheckpointFiles files(prefix());
  const std::span<const SaverGraph::Shard> writers = nodes_->writers();
  for (const SaverItem& item : nodes_->items) {
    const auto building = graph_.as_default();
    session_->run(item.variable->write(Write::Assign, zeros(item.variable->first_copy().shape)));
  }
  EXPECT_TRUE(restore_in_place(*session_, *nodes_, writers[1], files));
  EXPECT_EQ(session_->run(nodes_->values[1]).to_vector<int>(), (std::vector<int>{6, 7, 8, 9}));
  EXPECT_EQ(session_->run(nodes_->values[0]).to_vector<int>(), (std::vector<int>(6, 0)));
  std::filesystem::remove(files.path_of(files.manifest().files[0]));
  EXPECT_FALSE(restore_in_place(*session_, *nodes_, writers[0], files));
}

TEST_F(TaskSourceTest, NamesWhoWasAskedForAFileThatIsGone) {
  const CheckpointFiles files(prefix());
  std::filesystem::remove(files.path_of(files.manifest().files[0]));
  TaskSource source = far_source();
  EXPECT_ERROR(
      Code::NotFound,
      "asked 'this process', '/device:CPU:1', '/device:CPU:2'. Copy the file to one of these tasks",
      files.read("table", whole_of({5, 2}), source));
}

}  // namespace
}  // namespace cohort::internal
