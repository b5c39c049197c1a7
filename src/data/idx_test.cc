#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cohort/error.h"
#include "cohort/readers.h"
#include "support/compress.h"

namespace cohort {
namespace {

using namespace std::string_literals;

// A directory that goes away with the test.
class IdxTest : public testing::Test {
 protected:
  IdxTest() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    directory_ = std::filesystem::temp_directory_path() /
                 ("cohort_idx_" + name + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~IdxTest() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& content) {
    const std::string path = directory_ / "file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  Status read(const std::string& path) {
    return capture_status([&] { data::read_idx(path); });
  }

  std::filesystem::path directory_;
};

// Two rows of three bytes.
const std::string kMatrix = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"s + "abcdef";

TEST_F(IdxTest, ReadsBytesWithTheirShape) {
  const Tensor read = data::read_idx(write(kMatrix));
  EXPECT_EQ(read.dtype(), kUInt8);
  EXPECT_EQ(read.shape(), Shape({2, 3}));
  EXPECT_EQ(read.to_vector<uint8_t>(), (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST_F(IdxTest, ReadsCompressedFilesByTheirContentNotTheirName) {
  EXPECT_EQ(data::read_idx(write(gzip(kMatrix))).shape(), Shape({2, 3}));
}

TEST_F(IdxTest, TurnsBigEndianNumbersRound) {
  const Tensor shorts = data::read_idx(write("\0\0\x0b\x01\0\0\0\x02\x01\x02\xff\xfe"s));
  EXPECT_EQ(shorts.dtype(), kInt16);
  EXPECT_EQ(shorts.to_vector<int16_t>(), (std::vector<int16_t>{258, -2}));
  const Tensor floats = data::read_idx(write("\0\0\x0d\x01\0\0\0\x01\x3f\x80\0\0"s));
  EXPECT_EQ(floats.to_vector<float>(), (std::vector<float>{1.f}));
}

TEST_F(IdxTest, ReadsAFileWithoutElements) {
  const Tensor empty = data::read_idx(write("\0\0\x08\x02\0\0\0\0\0\0\0\x1c"s));
  EXPECT_EQ(empty.shape(), Shape({0, 28}));
}

TEST_F(IdxTest, AMissingFileIsNotFoundAndNamed) {
  const Status status = read(directory_ / "nothing");
  EXPECT_EQ(status.code, Code::NotFound);
  EXPECT_NE(status.message.find("nothing"), std::string::npos) << status;
  EXPECT_NE(status.message.find("apt install dataset-fashion-mnist"), std::string::npos) << status;
}

TEST_F(IdxTest, RowsAreReadAsTheyAreAskedFor) {
  const data::Dataset rows = data::idx(write(kMatrix));
  const Tensor batch = *rows.batch(2).begin();
  EXPECT_EQ(batch.shape(), Shape({2, 3}));
  EXPECT_EQ(batch.to_vector<uint8_t>(), (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  data::Iterator it = data::idx(write(gzip(kMatrix))).iterator();
  EXPECT_EQ(it.next().tensor().to_vector<uint8_t>(), (std::vector<uint8_t>{'a', 'b', 'c'}));
  data::Iterator restored = data::idx((directory_ / "file").string()).iterator(it.save());
  EXPECT_EQ(restored.next().tensor().to_vector<uint8_t>(), (std::vector<uint8_t>{'d', 'e', 'f'}));
  EXPECT_FALSE(restored.next_optional().has_value());
}

TEST_F(IdxTest, HeadersSayWhatRowsThereAre) {
  const std::string path = write(kMatrix);
  const std::string other = directory_ / "other";
  std::ofstream(other, std::ios::binary) << gzip("\0\0\x08\x02\0\0\0\x01\0\0\0\x05"s + "abcde");
  const data::Dataset rows = data::idx(path);
  ASSERT_TRUE(rows.element_spec().has_value());
  EXPECT_EQ(rows.element_spec()->to_string(), "uint8 (3,)");
  EXPECT_EQ(rows.cardinality(), 2);
  EXPECT_EQ(rows.batch(2, {.drop_remainder = true}).element_spec()->to_string(), "uint8 (2, 3)");
  const data::Dataset both = data::idx({path, other});
  EXPECT_EQ(both.element_spec()->to_string(), "uint8 (None,)");
  EXPECT_EQ(both.cardinality(), 3);
  const data::Dataset shuffled = data::idx(data::files({path, other}).shuffle(2).shard(2, 0));
  EXPECT_EQ(shuffled.element_spec()->to_string(), "uint8 (None,)");
  EXPECT_EQ(shuffled.cardinality(), data::kUnknownCardinality);
  // A function of rows runs without tensors.
  const data::Dataset sums = rows.map([](std::span<const uint8_t> row) { return int{row[0]}; });
  EXPECT_EQ(sums.element_spec()->to_string(), "int32 ()");
  const Tensor batch = *sums.batch(2).begin();
  EXPECT_EQ(batch.to_vector<int>(), (std::vector<int>{'a', 'd'}));
  std::ofstream(other, std::ios::binary) << "damaged";
  EXPECT_FALSE(both.element_spec().has_value());
  EXPECT_EQ(both.cardinality(), data::kUnknownCardinality);
  EXPECT_FALSE(data::idx((directory_ / "nothing").string()).element_spec().has_value());
}

TEST_F(IdxTest, RowsOfADamagedFileEndWithOneError) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kMatrix.substr(0, 17), "ends within rows 1 to 2"},
      {gzip(kMatrix.substr(0, 17)), "only 2 of 3 bytes follow"},
      {kMatrix + "x", "goes on after"},
      {gzip(kMatrix + "x"), "goes on after"},
  };
  for (const auto& [content, fragment] : cases) {
    data::Iterator it = data::idx(write(content)).iterator();
    Status failure;
    int rows = 0;
    while (failure.ok()) {
      failure = capture_status([&] { it.next(); });
      rows += failure.ok() ? 1 : 0;
    }
    EXPECT_EQ(failure.code, Code::DataLoss);
    EXPECT_NE(failure.message.find(fragment), std::string::npos) << failure;
    EXPECT_GE(rows, 1);
    EXPECT_FALSE(it.next_optional().has_value());
  }
  const Status scalar = capture_status([&] { data::idx(write("\0\0\x08\0a"s)).iterator().next(); });
  EXPECT_NE(scalar.message.find("holds a scalar"), std::string::npos) << scalar;
}

TEST_F(IdxTest, ADirectoryIsAnError) { EXPECT_EQ(read(directory_).code, Code::FailedPrecondition); }

struct Damage {
  std::string what;
  std::string content;
};

std::vector<Damage> damaged_files() {
  const std::string packed = gzip(kMatrix);
  std::string flipped = packed;
  flipped[packed.size() / 2] = static_cast<char>(flipped[packed.size() / 2] ^ 0x55);
  std::string bad_checksum = packed;
  bad_checksum[packed.size() - 6] = static_cast<char>(bad_checksum[packed.size() - 6] ^ 1);
  return {
      {"nothing at all", ""},
      {"one byte", "\0"s},
      {"half a magic number", "\0\0\x08"s},
      {"a text file", "hello, world\n"},
      {"a first byte that is not zero", "\x01" + kMatrix.substr(1)},
      {"a second byte that is not zero", "\0\x01"s + kMatrix.substr(2)},
      {"an element type of zero", "\0\0\0\x01\0\0\0\x01x"s},
      {"an element type that is unused", "\0\0\x0a\x01\0\0\0\x01x"s},
      {"an element type beyond the last", "\0\0\x0f\x01\0\0\0\x01x"s},
      {"an element type of 255", "\0\0\xff\x01\0\0\0\x01x"s},
      {"too many dimensions", "\0\0\x08\x09"s + std::string(36, '\x01') + "x"},
      {"255 dimensions", "\0\0\x08\xff"s + std::string(1020, '\x01')},
      {"sizes that are missing", "\0\0\x08\x02"s},
      {"sizes that are cut short", "\0\0\x08\x02\0\0\0\x02\0\0"s},
      {"no elements", kMatrix.substr(0, 12)},
      {"one element too few", kMatrix.substr(0, kMatrix.size() - 1)},
      {"one element too many", kMatrix + "g"},
      {"half a number at the end", "\0\0\x0c\x01\0\0\0\x02\0\0\0\x01\0\0"s},
      {"a size of four billion", "\0\0\x08\x01\xff\xff\xff\xff"s + "x"},
      {"sizes whose product overflows", "\0\0\x0e\x03"s + std::string(12, '\xff') + "x"},
      {"sizes whose product wraps to zero", "\0\0\x08\x03"s + "\x80\0\0\0\x80\0\0\0\0\0\0\x04"s},
      {"compressed: cut in the header", packed.substr(0, 6)},
      {"compressed: cut in the middle", packed.substr(0, packed.size() / 2)},
      {"compressed: cut before its checksum", packed.substr(0, packed.size() - 8)},
      {"compressed: cut in its length", packed.substr(0, packed.size() - 1)},
      {"compressed: a changed byte", flipped},
      {"compressed: a wrong checksum", bad_checksum},
      {"compressed: rubbish behind", packed + "rubbish"},
      {"compressed: one element too few", gzip(kMatrix.substr(0, kMatrix.size() - 1))},
      {"compressed: one element too many", gzip(kMatrix + "g")},
      {"compressed: a size of four billion", gzip("\0\0\x0e\x01\xff\xff\xff\xff"s + "x")},
      {"compressed: an unknown method", "\x1f\x8b\x09"s + packed.substr(3)},
  };
}

TEST_F(IdxTest, EveryDamagedFileIsDataLossThatNamesTheFile) {
  for (const Damage& damage : damaged_files()) {
    const std::string path = write(damage.content);
    const Status status = read(path);
    EXPECT_EQ(status.code, Code::DataLoss) << damage.what << ": " << status;
    EXPECT_NE(status.message.find(path), std::string::npos) << damage.what << ": " << status;
  }
}

TEST_F(IdxTest, SaysWhatItExpectedAndWhatItFound) {
  const Status status = read(write(kMatrix.substr(0, kMatrix.size() - 1)));
  EXPECT_NE(status.message.find("(2, 3)"), std::string::npos) << status;
  EXPECT_NE(status.message.find("5"), std::string::npos) << status;
}

}  // namespace
}  // namespace cohort
