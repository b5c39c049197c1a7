// Readers of files beside what a program does without a library, and what they hold in memory.

#include <cohort/torch.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "parts.h"

namespace cohort::bench {
namespace {

int64_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

struct Walk {
  int64_t elements = 0;
  int64_t megabytes_grown = 0;  // of resident memory, at most
};

// Takes all elements, and looks at the memory once in so many.
Walk watch_memory(const data::Dataset& dataset, int64_t between_looks) {
  const int64_t before = resident_kilobytes();
  Walk walk;
  for (const data::Element& element : dataset) {
    use(static_cast<double>(element.size()));
    if (++walk.elements % between_looks != 0) continue;
    walk.megabytes_grown = std::max(walk.megabytes_grown, (resident_kilobytes() - before) / 1024);
  }
  return walk;
}

}  // namespace

void tfrecords(const std::string& directory) {
  for (const size_t size : {size_t{100}, size_t{4} << 10, size_t{64} << 10, size_t{1} << 20}) {
    const std::string path = directory + "/records";
    const size_t total = size < 1000 ? size_t{64} << 20 : size_t{512} << 20;
    {
      data::TFRecordWriter writer(path);
      const std::string record(size, 'x');
      for (size_t done = 0; done < total; done += size) writer.write(record);
      writer.close();
    }
    const std::string cat = "cat " + path + " > /dev/null";
    const auto dataset = data::tfrecord(path);
    const double limit = size >= 64 << 10 ? 1 / 0.6 : 100;
    run({.name = "TFRecord of " + std::to_string(size) + " bytes / cat",
         .ours = [&] { walk(dataset); },
         .theirs = [&] { use(std::system(cat.c_str())); },
         .rounds = 5,
         .limit = limit});
    std::filesystem::remove(path);
  }
}

// Rows of an idx file, beside reads of as many bytes into fresh batches.
void idx(const std::string& directory) {
  constexpr int64_t kRows = 60'000;
  constexpr int64_t kRowBytes = 28 * 28;
  constexpr int64_t kRowsPerBatch = 256;
  const std::string path = directory + "/rows";
  {
    std::ofstream file(path, std::ios::binary);
    const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0xea, 0x60, 0, 0, 0, 28, 0, 0, 0, 28};
    file.write(reinterpret_cast<const char*>(head), sizeof(head));
    file << std::string(kRows * kRowBytes, 'x');
  }
  const auto dataset = data::idx(path).batch(kRowsPerBatch);
  const auto read_batches = [&] {
    const int file = ::open(path.c_str(), O_RDONLY);
    for (int64_t at = 0; at < kRows; at += kRowsPerBatch) {
      const int64_t count = std::min(kRowsPerBatch, kRows - at);
      const torch::Tensor batch = torch::empty({count, 28, 28}, torch::kByte);
      use(static_cast<double>(::read(file, batch.data_ptr(), count * kRowBytes)));
    }
    ::close(file);
  };
  run({.name = "idx batches / read() into batches",
       .ours = [&] { walk(dataset); },
       .theirs = read_batches,
       .rounds = 11,
       .limit = 1.2});
  std::filesystem::remove(path);
}

void csv(const std::string& directory) {
  const std::string path = directory + "/table.csv";
  {
    std::ofstream file(path);
    uint64_t state = 1;
    for (int row = 0; row < 1'000'000; ++row) {
      for (int column = 0; column < 10; ++column) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        file << (column > 0 ? "," : "") << static_cast<double>(state >> 40) / 1000;
      }
      file << '\n';
    }
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const auto dataset =
      data::csv(path, std::vector<data::CsvColumn>(10), {.header = false}).batch(1024);
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    best = std::min(best, seconds_of([&] { walk(dataset); }));
  }
  const double speed = bytes / best / 1e6;
  std::printf("%-44s %10.0f MB/s  limit 200  %s\n", "CSV, ten float columns, one core", speed,
              speed >= 200 ? "ok" : "MISSED");
  std::filesystem::remove(path);
}

void memory(const std::string& directory) {
  const std::string path = directory + "/sparse";
  { std::ofstream file(path); }
  std::filesystem::resize_file(path, uint64_t{10} << 30);
  Walk records;
  const double seconds = seconds_of(
      [&] { records = watch_memory(data::fixed_length_records(path, 1 << 20).prefetch(4), 256); });
  std::printf("%-44s %10ld records in %.1f s, memory grew by %ld MB\n",
              "10 GB file, records of 1 MB", records.elements, seconds, records.megabytes_grown);
  std::filesystem::remove(path);

  const auto large =
      data::range(2000).map([](int64_t) { return std::vector<float>(256 << 10); });  // 1 MB each
  std::printf("%-44s memory grew by %ld MB, bound 64 + 8 + 2 MB\n",
              "shuffle(64).prefetch(8) of 1 MB elements",
              watch_memory(large.shuffle(64).prefetch(8), 50).megabytes_grown);
}

}  // namespace cohort::bench
