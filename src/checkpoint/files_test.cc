// The files of checkpoints: what is written comes back, and is on the disk whole or not at all.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <cstring>
#include <fstream>

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/saving.h"
#include "cohort/checkpoint.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using internal::CheckpointFiles;
using internal::Manifest;
using internal::SaveItem;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count_files(const std::string& directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Tensors of every dtype, scalars and empty ones.
std::map<std::string, Tensor> samples() {
  return {{"f16", Tensor({float16(1.5f), float16(-2.f)})},
          {"bf16", Tensor({bfloat16(1.5f)})},
          {"f32", Tensor({{1.f, 2.f}, {3.f, 4.f}})},
          {"f64", Tensor(0.1)},
          {"i8", Tensor({int8_t{-1}, int8_t{2}, int8_t{3}})},
          {"i16", Tensor({int16_t{-300}})},
          {"i32", Tensor({1, 2, 3})},
          {"i64", Tensor({int64_t{1} << 40})},
          {"u8", Tensor({uint8_t{255}})},
          {"bool", Tensor({true, false, true})},
          {"empty", Tensor::from(std::vector<float>{}, {0, 3})}};
}

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.to_string(), b.to_string());
}

TEST(Safetensors, KeepsEveryDtypeAndShape) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/weights.safetensors";
  save_safetensors(path, samples());
  const auto loaded = load_safetensors(path);
  ASSERT_EQ(loaded.size(), samples().size());
  for (const auto& [name, tensor] : samples()) expect_equal(loaded.at(name), tensor);
  EXPECT_EQ(count_files(directory.path()), 1u);
}

TEST(Safetensors, IsTheFormatThatOthersRead) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/weights.safetensors";
  save_safetensors(path, {{"b", Tensor({uint8_t{7}})}, {"a", Tensor({1.f, 2.f})}});
  const std::string bytes = file_text(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const std::string header = bytes.substr(8, length);
  EXPECT_TRUE(header.starts_with("{")) << header;
  EXPECT_NE(header.find(R"("a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]})"),
            std::string::npos)
      << header;
  EXPECT_NE(header.find(R"("b":{"data_offsets":[8,9],"dtype":"U8","shape":[1]})"),
            std::string::npos)
      << header;
  EXPECT_EQ(bytes.size(), 8 + length + 9);
}

TEST(Safetensors, ReadsAFileThatIsWrittenByHand) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"x":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  const TemporaryFile file(bytes + header + std::string("\x01\x00\x02\x00", 4));
  EXPECT_EQ(load_safetensors(file.path()).at("x").to_vector<int>(), (std::vector<int>{1, 2}));
}

TEST(Safetensors, RefusesWhatTheFormatHasNot) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/x.safetensors";
  EXPECT_ERROR(Code::InvalidArgument, "tensor 's' has dtype string",
               save_safetensors(path, {{"s", Tensor("a")}}));
  EXPECT_ERROR(Code::InvalidArgument, "__metadata__",
               save_safetensors(path, {{"__metadata__", Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "UTF-8", save_safetensors(path, {{"\xff", Tensor(1.f)}}));
  EXPECT_ERROR(Code::NotFound, "missing.safetensors",
               load_safetensors(directory.path() + "/missing.safetensors"));
  EXPECT_EQ(count_files(directory.path()), 0u);
}

TEST(NewFile, IsThereOnlyWhenCommitted) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/deep/er/file";
  {
    internal::NewFile file(path);
    file.write("half");
  }
  EXPECT_FALSE(internal::file_exists(path));
  EXPECT_EQ(count_files(directory.path() + "/deep/er"), 0u);
  internal::NewFile file(path);
  file.write("whole");
  EXPECT_FALSE(internal::file_exists(path));
  file.commit();
  EXPECT_EQ(file_text(path), "whole");
}

// Unavailable would say that a peer is lost, for which callers wait.
TEST(NewFile, SaysWhyThereIsNone) {
  const TemporaryFile in_the_way("x");
  const TemporaryDirectory directory;
  EXPECT_ERROR(Code::InvalidArgument, "File name too long",
               internal::NewFile(directory.path() + "/" + std::string(300, 'x')));
  EXPECT_ERROR(Code::FailedPrecondition, in_the_way.path(),
               internal::NewFile(in_the_way.path() + "/file"));
}

TEST(NewFile, OnAFullDiskLeavesWhatWasThereBefore) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/weights.safetensors";
  save_safetensors(path, {{"w", Tensor(1.f)}});
  {
    const FileSizeLimit full(1 << 16);
    const Tensor large = Tensor::from(std::vector<float>(1 << 16), {1 << 16});
    EXPECT_ERROR(Code::ResourceExhausted, path, save_safetensors(path, {{"w", large}}));
  }
  EXPECT_EQ(load_safetensors(path).at("w").to<float>(), 1);
  EXPECT_EQ(count_files(directory.path()), 1u);
}

TEST(AbandonedFiles, GoUnlessSomebodyHoldsThemOrTheyAreYoung) {
  const TemporaryDirectory directory;
  const std::string name = internal::data_file_name("model-1", internal::random_id(), 0, 1);
  const std::string young = directory.write(name + ".tmp-0123456789abcdef", "x");
  const std::string old = directory.write(name + ".tmp-1123456789abcdef", "x");
  const std::string held = directory.write(name + ".tmp-2123456789abcdef", "x");
  const std::string foreign = directory.write("notes.tmp-3123456789abcdef", "x");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& path : {old, held, foreign}) {
    std::filesystem::last_write_time(path, long_ago);
  }
  const internal::FileDescriptor holder(::open(held.c_str(), O_RDONLY));
  ASSERT_EQ(::flock(holder.get(), LOCK_EX), 0);
  internal::remove_abandoned_files(directory.path(), internal::is_checkpoint_file_name);
  EXPECT_TRUE(internal::file_exists(young));
  EXPECT_FALSE(internal::file_exists(old));
  EXPECT_TRUE(internal::file_exists(held));
  EXPECT_TRUE(internal::file_exists(foreign));
}

TEST(AbandonedFiles, OfASafetensorsFileGoWhenItIsSavedAgain) {
  const TemporaryDirectory directory;
  const std::string left = directory.write("w.safetensors.tmp-0123456789abcdef", "x");
  std::filesystem::last_write_time(
      left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  save_safetensors(directory.path() + "/w.safetensors", {{"w", Tensor(1.f)}});
  EXPECT_FALSE(internal::file_exists(left));
}

// Writes a checkpoint of these tensors.
std::string write(const std::string& prefix, const std::map<std::string, Tensor>& tensors,
                  std::optional<int64_t> step = std::nullopt) {
  std::vector<SaveItem> items;
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : tensors) {
    items.push_back({.name = name, .dtype = tensor.dtype()});
    values.push_back(tensor);
  }
  internal::write_checkpoint(prefix, step, items, values, nullptr);
  return prefix;
}

TEST(CheckpointReader, GivesWhatWasWritten) {
  const TemporaryDirectory directory;
  auto tensors = samples();
  tensors.emplace(
      "text",
      Tensor::from(std::vector<std::string>{"a", "", std::string("\0\n", 2), "long"}, {2, 2}));
  const auto before =
      std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const CheckpointReader reader(write(directory.path() + "/model", tensors, 42));
  EXPECT_EQ(reader.step(), 42);
  EXPECT_GE(reader.saved_at(), before);
  EXPECT_LE(reader.saved_at(), std::chrono::system_clock::now());
  ASSERT_EQ(reader.tensors().size(), tensors.size());
  EXPECT_EQ(reader.tensors()[0].name, "bf16");
  for (const auto& [name, tensor] : tensors) expect_equal(reader.read(name), tensor);
  reader.verify();
  ASSERT_EQ(reader.files().size(), 1u);
  EXPECT_EQ(load_safetensors(reader.files()[0]).count("f32"), 1u);
}

TEST(CheckpointReader, GivesPartsOfTensors) {
  const TemporaryDirectory directory;
  const CheckpointReader reader(
      write(directory.path() + "/model", {{"w", Tensor({{1, 2, 3}, {4, 5, 6}})}}));
  EXPECT_EQ(reader.read_slice("w", {0, 1}, {2, 2}).to_vector<int>(),
            (std::vector<int>{2, 3, 5, 6}));
  EXPECT_ERROR(Code::InvalidArgument, "does not contain a part of shape (2, 2) at (1, 1)",
               reader.read_slice("w", {1, 1}, {2, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "does not contain a part", reader.read_slice("w", {0}, {2}));
}

TEST(CheckpointReader, NamesTensorsThatAreCalledAlike) {
  const TemporaryDirectory directory;
  const CheckpointReader reader(write(directory.path() + "/model", {{"layer_1/kernel", Tensor(1.f)},
                                                                    {"layer_2/kernel", Tensor(1.f)},
                                                                    {"momentum", Tensor(1.f)}}));
  EXPECT_ERROR(Code::NotFound, "no tensor 'kernel'; it has 'layer_1/kernel', 'layer_2/kernel'",
               reader.read("kernel"));
  EXPECT_ERROR(Code::NotFound, "did you mean 'momentum'", reader.read("momentun"));
  EXPECT_ERROR(Code::NotFound, "the checkpoint has 3 other tensors", reader.read("q"));
}

TEST(CheckpointReader, NamesTheCheckpointsThatThereAre) {
  const TemporaryDirectory directory;
  write(directory.path() + "/model-5", {{"w", Tensor(1.f)}});
  EXPECT_ERROR(Code::NotFound, "has 'model-5'", CheckpointReader(directory.path() + "/model-6"));
  EXPECT_FALSE(checkpoint_exists(directory.path() + "/model-6"));
  EXPECT_TRUE(checkpoint_exists(directory.path() + "/model-5"));
}

TEST(Checkpoints, WrittenAgainReplaceTheOldOneAndLeaveNothing) {
  const TemporaryDirectory directory;
  const std::string prefix = directory.path() + "/model";
  write(prefix, {{"w", Tensor(1.f)}});
  const CheckpointReader old(prefix);
  EXPECT_EQ(old.read("w").to<float>(), 1);
  write(prefix, {{"w", Tensor(2.f)}});
  EXPECT_EQ(CheckpointReader(prefix).read("w").to<float>(), 2);
  EXPECT_EQ(count_files(directory.path()), 2u);
  EXPECT_EQ(old.read("w").to<float>(), 1) << "who has it open goes on reading it";
}

// A process was killed: in the middle of a file, after it, after the manifest, and in the middle of
// removing a checkpoint. None of the four has the prefix of the next save.
TEST(Checkpoints, ClearWhatKilledSavesLeft) {
  const TemporaryDirectory directory;
  const auto path = [&](const std::string& name) { return directory.path() + "/" + name; };
  const auto file_of = [&](const char* prefix) {
    return internal::data_file_name(prefix, "0123456789abcdef", 0, 1);
  };
  directory.write(file_of("a-1") + ".tmp-0123456789abcdef", "half");
  directory.write(file_of("a-2"), "whole");
  write(path("a-3"), {{"w", Tensor(3.f)}});
  directory.write(file_of("a-3"), "replaced");
  for (const char* prefix : {"a-1", "a-2", "a-3"}) {
    internal::SaveIntent(path(prefix), "0123456789abcdef", {{.name = file_of(prefix)}});
  }
  write(path("a-4"), {{"w", Tensor(4.f)}});
  std::filesystem::rename(path("a-4.manifest.json"), path("a-4.0123456789abcdef.saving"));
  write(path("b"), {{"w", Tensor(5.f)}});
  EXPECT_EQ(count_files(directory.path()), 4u);
  CheckpointReader(path("a-3")).verify();
  CheckpointReader(path("b")).verify();
}

TEST(Checkpoints, LeaveNoFilesWhenTheManifestFails) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() + "/model.manifest.json/in the way");
  EXPECT_ERROR(Code::FailedPrecondition, "model.manifest.json",
               write(directory.path() + "/model", {{"w", Tensor(1.f)}}));
  EXPECT_EQ(count_files(directory.path()), 1u);
}

TEST(Checkpoints, CanBeRemovedAndMoved) {
  const TemporaryDirectory directory;
  write(directory.path() + "/a/model", {{"w", Tensor(3.f)}});
  std::filesystem::rename(directory.path() + "/a", directory.path() + "/b");
  EXPECT_EQ(CheckpointReader(directory.path() + "/b/model").read("w").to<float>(), 3);
  remove_checkpoint(directory.path() + "/b/model");
  EXPECT_EQ(count_files(directory.path() + "/b"), 0u);
}

TEST(Manifest, KeepsSlicesAndWhoWroteThem) {
  Manifest manifest{.step = 7, .saved_at_ms = 123, .files = {}, .tensors = {}};
  manifest.files = {{.name = "a", .size = 100, .header_crc32c = 1, .device = "/job:ps/task:0"},
                    {.name = "b", .size = 50, .header_crc32c = 2, .device = "/job:ps/task:1"}};
  manifest.tensors["w"] = {
      .dtype = kFloat32,
      .shape = {5},
      .slices = {
          {.file = 0,
           .key = "w[0:3]",
           .extent = {{0}, {3}},
           .begin = 8,
           .size = 12,
           .crc32c = 0xdeadbeef},
          {.file = 1, .key = "w[3:5]", .extent = {{3}, {2}}, .begin = 8, .size = 8, .crc32c = 5}}};
  const Manifest read = internal::parse_manifest(internal::manifest_text(manifest), "m");
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.files[1].device, "/job:ps/task:1");
  const auto& slices = read.tensors.at("w").slices;
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].crc32c, 0xdeadbeefu);
  EXPECT_EQ(slices[1].extent, (internal::Extent{{3}, {2}}));
}

TEST(DataFileNames, AreToldFromOthers) {
  const std::string name = internal::data_file_name("dir/model-7", internal::random_id(), 3, 12);
  EXPECT_TRUE(internal::is_data_file_name(name)) << name;
  EXPECT_FALSE(internal::is_data_file_name("model.safetensors"));
  EXPECT_FALSE(internal::is_data_file_name("/etc/passwd"));
  EXPECT_FALSE(internal::is_data_file_name(name.substr(name.find('.'))));
}

}  // namespace
}  // namespace cohort
