#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cohort/cohort.h"
#include "errors/catalogue.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A checkpoint of a variable 'w' of shape (2,), and its files.
struct SavedModel {
  explicit SavedModel(const std::string& directory)
      : prefix(Checkpoint({{"w", Variable({1.f, 2.f})}}).write(directory + "/model")),
        manifest(prefix + ".manifest.json"),
        data(CheckpointReader(prefix).files().at(0)) {}

  std::string prefix, manifest, data;
};

// Reads a checkpoint whose file is damaged by `change`.
template <typename Change>
void read_changed(bool change_manifest, Change change) {
  const TemporaryDirectory directory;
  const SavedModel saved(directory.path());
  const std::string& path = change_manifest ? saved.manifest : saved.data;
  overwrite(path, change(bytes_of(path)));
  CheckpointReader(saved.prefix).read("w");
}

TEST(Errors, OfCheckpointsAndBackups) {
  const TemporaryDirectory directory;
  const SavedModel saved(directory.path());
  MirroredStrategy strategy({"CPU:0"});
  const Variable v({1.f, 2.f}, {.name = "v"});
  check_section(
      "Checkpoints and backups",
      {
          {[&] { CheckpointReader(directory.path() + "/modell"); },
           "Use a prefix, without the ending of a file; `latest_checkpoint()` returns one."},
          {[&] { CheckpointReader(saved.prefix).read("weights"); },
           "Use one of the names of the checkpoint."},
          {[&] {
             Checkpoint({{"w", Variable({1.f, 2.f, 3.f})}}).read(saved.prefix);
           },
           "Restore into variables of the saved shape and dtype."},
          {[&] {
             Checkpoint({{"w", v}, {"b", Variable(0.f)}}).read(saved.prefix).assert_consumed();
           },
           "Track what was tracked when the checkpoint was saved, or call `expect_partial()`."},
          {[&] { Checkpoint().read(saved.prefix).assert_consumed(); }},
          {[] {
             read_changed(false,
                          [](std::string bytes) { return bytes.substr(0, bytes.size() - 2); });
           },
           "Restore an older checkpoint: `latest_checkpoint()` passes over damaged ones."},
          {[] {
             read_changed(false, [](std::string bytes) {
               bytes.back() ^= 1;
               return bytes;
             });
           },
           "Restore an older checkpoint."},
          {[] {
             read_changed(
                 true, [](const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); });
           },
           "Restore an older checkpoint."},
          {[] { read_changed(true, [](const std::string&) { return std::string("{}"); }); },
           "Restore an older checkpoint."},
          {[] {
             const TemporaryDirectory other;
             const SavedModel moved(other.path());
             std::filesystem::remove(moved.data);
             CheckpointReader(moved.prefix).read("w");
           },
           "Copy all files of a checkpoint, whose names begin with its prefix."},
          {[&] {
            Checkpoint({{"v", v}, {"v", v}});
          }},
          {[&] {
            Checkpoint({{"layer/v", v}});
          }},
          {[&] {
             Checkpoint({{"v", v}}).write(saved.data + "/model");
           },
           "Name a directory in which this process may write."},
          {[&] {
             save_safetensors(directory.path() + "/s", {{"s", Tensor("text")}});
           },
           "Store strings with a `Checkpoint`."},
          {[&] { load_safetensors(directory.write("short", "abc")); }, "Write the file again."},
          {[&] {
            CheckpointManager(Checkpoint({{"v", v}}), "");
          }},
          {[&] {
            CheckpointManager(Checkpoint({{"v", v}}), directory.path(), {.max_to_keep = -1});
          }},
          {[&] {
            Graph graph;
            const auto building = graph.as_default();
            Checkpoint({{"g", Variable(1.f, {.name = "g"})}}).write(directory.path() + "/g");
          }},
          {[&] { Saver({v}); }},
          {[&] {
            BackupAndRestore(strategy, {{"v", v}}, {});
          }},
          {[&] {
            const BackupOptions options{.directory = directory.path() + "/backup"};
            BackupAndRestore first(strategy, {{"v", v}}, options);
            BackupAndRestore second(strategy, {{"v", v}}, options);
            const auto data = strategy.distribute_dataset(data::range(2).batch(2));
            first.run(data, [&](const DistributedElement&) {
              second.run(data, [](const DistributedElement&) {});
            });
          }},
          {[&] {
            for (const size_t count : {2, 1}) {
              const std::vector<std::string> devices{"CPU:0", "CPU:1"};
              MirroredStrategy replicas({devices.begin(), devices.begin() + count});
              BackupAndRestore backup(replicas, {{"v", v}},
                                      {.directory = directory.path() + "/pair"});
              backup.run(replicas.distribute_dataset(data::range(2).batch(2)),
                         [](const DistributedElement&) {});
            }
          }},
      });
}

}  // namespace
}  // namespace cohort::test
