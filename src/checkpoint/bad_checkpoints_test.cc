// Files that are not as they must be: each is an error that says which, and takes no memory.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/saving.h"
#include "cohort/checkpoint.h"
#include "data/byte_source.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using internal::FileJson;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A checkpoint with tensors 'a' and 'w', to be spoilt.
class BadCheckpoints : public ::testing::Test {
 protected:
  BadCheckpoints() {
    internal::write_checkpoint(prefix(), 1,
                               {{.name = "a", .dtype = kInt32}, {.name = "w", .dtype = kFloat32}},
                               {Tensor({1, 2}), Tensor({{1.f, 2.f}, {3.f, 4.f}})}, nullptr);
  }

  std::string prefix() const { return directory_.path() + "/model"; }
  std::string manifest_file() const { return internal::manifest_path(prefix()); }
  std::string data_file() const { return CheckpointReader(prefix()).files()[0]; }

  static void overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Changes the manifest and makes its checksum right again. An accident does not do that.
  template <typename Change>
  void forge(const Change& change) {
    FileJson text = FileJson::parse(contents(manifest_file()));
    text.erase("crc32c");
    change(text);
    const std::string checked = text.dump().substr(1) + "\n";
    overwrite(manifest_file(), "{\"crc32c\":\"" +
                                   internal::checksum_text(data::internal::crc32c(checked)) +
                                   "\"," + checked);
  }
  FileJson& slice(FileJson& text, const char* tensor = "w") {
    return text["tensors"][tensor]["slices"][0];
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(BadCheckpoints, AreNotChosenWhateverByteOfTheManifestIsWrong) {
  const std::string good = contents(manifest_file());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    overwrite(manifest_file(), bad);
    const Status status = error_of([&] { (void)CheckpointReader(prefix()); });
    ASSERT_EQ(status.code, Code::DataLoss) << at << ": " << status.to_string();
    ASSERT_NE(status.message.find(manifest_file()), std::string::npos) << status.message;
  }
}

TEST_F(BadCheckpoints, AreNotedWhereverTheManifestIsCutOff) {
  const std::string good = contents(manifest_file());
  for (size_t size = 0; size < good.size(); ++size) {
    overwrite(manifest_file(), good.substr(0, size));
    ASSERT_EQ(error_of([&] { (void)CheckpointReader(prefix()); }).code, Code::DataLoss) << size;
  }
}

TEST_F(BadCheckpoints, AreNotedWhateverByteOfTheDataIsWrong) {
  const std::string path = data_file();
  const std::string good = contents(path);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    overwrite(path, bad);
    const Status status = error_of([&] { CheckpointReader(prefix()).verify(); });
    ASSERT_EQ(status.code, Code::DataLoss) << at << ": " << status.to_string();
    ASSERT_NE(status.message.find(path), std::string::npos) << status.message;
  }
}

TEST_F(BadCheckpoints, AreNotedWhereverTheDataIsCutOff) {
  const std::string path = data_file();
  const std::string good = contents(path);
  for (size_t size = 0; size < good.size(); ++size) {
    overwrite(path, good.substr(0, size));
    EXPECT_ERROR(Code::DataLoss, "cut off", CheckpointReader(prefix()).read("w"));
  }
  overwrite(path, good + "x");
  EXPECT_ERROR(Code::DataLoss, "the manifest says", CheckpointReader(prefix()).read("w"));
}

TEST_F(BadCheckpoints, NameTheTensorThatIsDamaged) {
  const std::string path = data_file();
  std::string bytes = contents(path);
  bytes.back() = '!';
  overwrite(path, bytes);
  const CheckpointReader reader(prefix());
  EXPECT_ERROR(Code::DataLoss, "tensor 'w' in '" + path + "' is damaged", reader.read("w"));
  EXPECT_EQ(reader.read("a").to_vector<int>(), (std::vector<int>{1, 2}));
}

TEST_F(BadCheckpoints, WithAnotherOnesFileAreNoted) {
  const std::string path = data_file();
  internal::write_checkpoint(prefix() + "2", 1,
                             {{.name = "b", .dtype = kInt32}, {.name = "w", .dtype = kFloat32}},
                             {Tensor({1, 2}), Tensor({{1.f, 2.f}, {3.f, 4.f}})}, nullptr);
  std::filesystem::copy_file(CheckpointReader(prefix() + "2").files()[0], path,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_ERROR(Code::DataLoss, "does not match the manifest", CheckpointReader(prefix()).read("w"));
}

TEST_F(BadCheckpoints, WithoutTheirFileSayWhichIsMissing) {
  const std::string path = data_file();
  std::filesystem::remove(path);
  EXPECT_ERROR(Code::NotFound, path, CheckpointReader(prefix()).read("w"));
  EXPECT_ERROR(Code::NotFound, path, CheckpointReader(prefix()).verify());
}

struct Forgery {
  const char* what;
  std::function<void(FileJson& text)> change;
  const char* fragment;
  Code code = Code::DataLoss;
};

TEST_F(BadCheckpoints, WithForgedManifestsAreRefusedBeforeMemoryIsTaken) {
  const std::string good = contents(manifest_file());
  const uint64_t huge = uint64_t{1} << 50;
  const std::vector<Forgery> forgeries = {
      {"no format", [](auto& t) { t.erase("format"); }, "\"format\" must be there"},
      {"another format", [](auto& t) { t["format"] = "x"; }, "not the manifest"},
      {"newer", [](auto& t) { t["version"] = 2; }, "version 2", Code::Unimplemented},
      {"step is text", [](auto& t) { t["step"] = "x"; }, "\"step\" must be a whole number"},
      {"files is text", [](auto& t) { t["files"] = "x"; }, "\"files\" must be a list"},
      {"file outside", [](auto& t) { t["files"][0]["name"] = "../../etc/passwd"; },
       "not a file of"},
      {"file is absolute", [](auto& t) { t["files"][0]["name"] = "/etc/passwd"; }, "not a file of"},
      {"file twice", [](auto& t) { t["files"].push_back(t["files"][0]); }, "twice"},
      {"no tensors", [](auto& t) { t.erase("tensors"); }, "\"tensors\" must be there"},
      {"tensors is a list",
       [](auto& t) {
         t["tensors"] = {1, 2};
       },
       "expected an object"},
      {"dtype", [](auto& t) { t["tensors"]["w"]["dtype"] = "float31"; }, "no dtype 'float31'"},
      {"resource", [](auto& t) { t["tensors"]["w"]["dtype"] = "resource"; }, "no dtype"},
      {"rank", [](auto& t) { t["tensors"]["w"]["shape"] = std::vector<int>(9, 1); }, "at most 8"},
      {"negative",
       [](auto& t) {
         t["tensors"]["w"]["shape"] = {-1, 2};
       },
       "whole numbers"},
      {"huge shape",
       [=](auto& t) {
         t["tensors"]["w"]["shape"] = {huge, huge};
       },
       "shape"},
      {"large shape",
       [=](auto& t) {
         t["tensors"]["w"]["shape"] = {huge, 2};
       },
       "do not take"},
      {"no slices", [](auto& t) { t["tensors"]["w"]["slices"] = FileJson::array(); }, "1 to 4096"},
      {"file 9", [&](auto& t) { slice(t)["file"] = 9; }, "there is no file 9"},
      {"file -1", [&](auto& t) { slice(t)["file"] = -1; }, "\"file\" must be a whole number"},
      {"beyond", [&](auto& t) { slice(t)["begin"] = huge; }, "do not lie in"},
      {"far beyond", [&](auto& t) { slice(t)["begin"] = UINT64_MAX; }, "do not lie in"},
      {"size", [&](auto& t) { slice(t)["size"] = 15; }, "do not take 15 bytes"},
      {"crc", [&](auto& t) { slice(t)["crc32c"] = "xyz"; }, "8 hexadecimal digits"},
      {"key", [&](auto& t) { slice(t)["key"] = 7; }, "\"key\" must be a text"},
      {"slice outside",
       [&](auto& t) {
         slice(t)["offset"] = {1, 0};
         slice(t)["shape"] = {2, 2};
       },
       "does not lie in the shape"},
      {"gap",
       [&](auto& t) {
         slice(t)["offset"] = {0, 0};
         slice(t)["shape"] = {1, 2};
         slice(t)["size"] = 8;
       },
       "do not make up the shape"},
      {"twice",
       [&](auto& t) {
         for (int i = 0; i < 1000; ++i) t["tensors"]["w" + std::to_string(i)] = t["tensors"]["w"];
       },
       "fewer bytes than its tensors"},
  };
  for (const Forgery& forgery : forgeries) {
    SCOPED_TRACE(forgery.what);
    overwrite(manifest_file(), good);
    forge(forgery.change);
    EXPECT_ERROR(forgery.code, forgery.fragment, CheckpointReader(prefix()));
  }
}

TEST_F(BadCheckpoints, WithManifestsThatClaimMoreThanThereIsAreRefused) {
  forge([&](FileJson& text) {
    text["files"][0]["size"] = uint64_t{1} << 45;
    text["tensors"]["w"]["shape"] = {uint64_t{1} << 40, 2};
    slice(text)["size"] = uint64_t{1} << 43;
  });
  EXPECT_ERROR(Code::DataLoss, "cut off", CheckpointReader(prefix()).read("w"));
}

TEST_F(BadCheckpoints, WhoseManifestSwapsTensorsAreNoted) {
  forge([&](FileJson& text) { slice(text)["key"] = "a"; });
  EXPECT_ERROR(Code::DataLoss, "does not hold tensor 'a' where the manifest says",
               CheckpointReader(prefix()).read("w"));
}

TEST(BadSafetensors, SayWhatIsWrong) {
  const auto file = [](const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + data;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "too few"},
      {"1234567", "too few"},
      {std::string(8, '\xff'), "header of 18446744073709551615"},
      {file("{}", "x"), "1 bytes after its last tensor"},
      {file("[]", ""), "expected an object"},
      {file("{", ""), "is not JSON"},
      {file(R"({"x":1})", ""), "tensor 'x'"},
      {file(R"({"x":{"dtype":"F32","shape":[1]}})", ""), "\"data_offsets\" must be there"},
      {file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "abcd"),
       "inside the file"},
      {file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"), "do not take"},
      {file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"),
       "inside the file"},
      {file(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
               "y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            "abc"),
       "overlap those of another tensor"},
      {file(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab"), "after a gap"},
      {file(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{}})", ""), "twice"},
      {file(std::string(40, '['), ""), "nests deeper"},
  };
  for (const auto& [bytes, fragment] : cases) {
    const TemporaryFile bad(bytes);
    EXPECT_ERROR(Code::DataLoss, fragment, load_safetensors(bad.path()));
    EXPECT_ERROR(Code::DataLoss, bad.path(), load_safetensors(bad.path()));
  }
  const TemporaryFile other(
      file(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "a"));
  EXPECT_ERROR(Code::Unimplemented, "'F8_E4M3'", load_safetensors(other.path()));
}

}  // namespace
}  // namespace cohort
