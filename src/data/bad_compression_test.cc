// Compressed files that are cut off or damaged.

#include <functional>

#include "data/array_file.h"
#include "support/bad_files.h"
#include "support/compress.h"
#include "support/datasets.h"
#include "support/memory_source.h"

namespace cohort::data {
namespace {

using internal::BufferedBytes;
using internal::memory_source;

std::string all_of(const std::string& text) {
  BufferedBytes bytes(internal::decompressed(memory_source(as_bytes(text), "file")));
  const auto content = internal::read_growing(bytes, int64_t{1} << 40);
  return std::string(internal::as_text(content));
}

TEST(BadFiles, Compressed) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string zipped = gzip(text);
  const std::string packed = zstd(text);
  EXPECT_EQ(all_of(zipped), text);
  EXPECT_EQ(all_of(packed), text);
  EXPECT_EQ(all_of(zipped + zipped), text + text);
  EXPECT_EQ(all_of(packed + packed), text + text);

  std::vector<BadFile> gzip_cases;
  std::vector<BadFile> zstd_cases;
  for (int i = 1; i < 25; ++i) {
    const size_t cut = 4 + zipped.size() * static_cast<size_t>(i) / 26;
    gzip_cases.push_back({"cut", zipped.substr(0, cut), "ends in the middle"});
    gzip_cases.push_back(
        {"damaged end",
         with(zipped, zipped.size() - 1 - static_cast<size_t>(i) % 8,
              static_cast<char>(zipped[zipped.size() - 1 - static_cast<size_t>(i) % 8] ^ 1)),
         "is damaged"});
    const size_t short_cut = 4 + packed.size() * static_cast<size_t>(i) / 26;
    zstd_cases.push_back({"cut", packed.substr(0, short_cut), "ends in the middle"});
  }
  gzip_cases.push_back({"text behind", zipped + "hello", "is damaged"});
  zstd_cases.push_back({"text behind", packed + "hello", "is damaged"});
  zstd_cases.push_back({"header", with(packed, 4, '\xff'), "[Zstd]"});
  const auto damage = [](const std::string& good, size_t at) {
    return with(good, at, static_cast<char>(good[at] ^ 0x55));
  };
  for (const size_t at : {3, 12, 20, 40, 80}) {
    gzip_cases.push_back({"damaged inside", damage(zipped, at), "[Gzip]"});
  }
  for (const size_t at : {5, 6, 7, 8}) {
    zstd_cases.push_back({"damaged inside", damage(packed, at), "[Zstd]"});
  }
  expect_errors(gzip_cases, 20, all_of);
  expect_errors(zstd_cases, 20, all_of);
}

// Whatever is read: what comes before the damage, one error, then the next file. Also when the
// position is saved in between.
TEST(BadFiles, DamagedCompressionIsOneErrorAndTheNextFileFollows) {
  const TemporaryDirectory directory;
  std::string lines;
  std::string records;
  for (int i = 0; i < 3000; ++i) {
    lines += std::to_string(1000 + i * 7919 % 9000) + "\n";
    records += framed(std::to_string(i * 7919));
  }
  struct Format {
    std::string name;
    std::string content;
    std::function<Dataset(const Files&)> read;
  };
  const std::vector<Format> formats = {
      {"text", lines, [](const Files& files) { return text_lines(files); }},
      {"csv", lines, [](const Files& files) { return csv(files, {{kInt32}}, {.header = false}); }},
      {"fixed", lines, [](const Files& files) { return fixed_length_records(files, 5); }},
      {"tfrecord", records, [](const Files& files) { return tfrecord(files); }}};
  for (const Format& format : formats) {
    const std::string good = directory.file("good", format.content);
    const auto all = rest_of(format.read(good).iterator());
    const std::string zipped = gzip(format.content);
    const std::string packed = zstd(format.content);
    const std::vector<std::string> damaged = {
        zipped.substr(0, zipped.size() / 2), packed.substr(0, packed.size() / 2),
        with(zipped, zipped.size() - 8, static_cast<char>(zipped[zipped.size() - 8] ^ 1))};
    for (const std::string& bytes : damaged) {
      const Dataset dataset = format.read({directory.file("bad", bytes), good});
      Iterator it = dataset.iterator();
      size_t before = 0;
      Status failure;
      while (failure.ok() && before <= all.size()) {
        failure = capture_status([&] { it.next(); });
        before += failure.ok() ? 1 : 0;
      }
      EXPECT_EQ(failure.code, Code::DataLoss) << format.name;
      const std::string position = it.save();
      EXPECT_EQ(rest_of(it), all) << format.name;
      EXPECT_EQ(rest_of(dataset.iterator(position)), all) << format.name;
    }
  }
}

}  // namespace
}  // namespace cohort::data
