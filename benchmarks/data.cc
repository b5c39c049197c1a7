// Input pipelines beside torch's DataLoader, loops written by hand, and cat.
// Columns: ours, theirs, ours / theirs, what is aimed at.

#include "cohort/data.h"

#include <cohort/torch.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "ratio.h"

namespace {

namespace data = cohort::data;
using cohort::bench::Contest;
using cohort::bench::run;
using cohort::bench::seconds_of;

constexpr int64_t kElements = 1'000'000;
constexpr int64_t kBatch = 128;
volatile double sink = 0;  // NOLINT: keeps results alive

std::vector<float> values() {
  std::vector<float> all(kElements);
  std::iota(all.begin(), all.end(), 0.f);
  return all;
}

// torch's: a dataset of one-element tensors, a map, a stack.
struct TorchValues : torch::data::datasets::Dataset<TorchValues, torch::Tensor> {
  torch::Tensor all = torch::arange(kElements, torch::kFloat);
  torch::Tensor get(size_t index) override { return all[static_cast<int64_t>(index)]; }
  torch::optional<size_t> size() const override { return kElements; }
};
struct TorchDouble : torch::data::transforms::Lambda<torch::Tensor> {
  TorchDouble() : Lambda([](torch::Tensor x) { return x * 2.f + 1.f; }) {}
};
struct TorchStack : torch::data::transforms::Collation<torch::Tensor, std::vector<torch::Tensor>> {
  torch::Tensor apply_batch(std::vector<torch::Tensor> parts) override {
    return torch::stack(parts);
  }
};

void torch_epoch() {
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      TorchValues().map(TorchDouble()).map(TorchStack()),
      torch::data::DataLoaderOptions().batch_size(kBatch).workers(1));
  for (const torch::Tensor& batch : *loader) sink = sink + batch.data_ptr<float>()[0];
}

// torch's best: samples are plain floats.
struct TorchFloats : torch::data::datasets::Dataset<TorchFloats, float> {
  std::vector<float> all = values();
  float get(size_t index) override { return all[index]; }
  torch::optional<size_t> size() const override { return kElements; }
};
struct TorchFloatStack : torch::data::transforms::Collation<torch::Tensor, std::vector<float>> {
  torch::Tensor apply_batch(std::vector<float> parts) override { return torch::tensor(parts); }
};

void torch_float_epoch() {
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      TorchFloats()
          .map(torch::data::transforms::Lambda<float>([](float x) { return x * 2.f + 1.f; }))
          .map(TorchFloatStack()),
      torch::data::DataLoaderOptions().batch_size(kBatch).workers(1));
  for (const torch::Tensor& batch : *loader) sink = sink + batch.data_ptr<float>()[0];
}

void our_epoch(const data::Dataset& dataset) {
  for (const data::Element& batch : dataset) {
    const cohort::Tensor tensor = batch;
    sink = sink + tensor.data<float>()[0];
  }
}

// What one writes without a library: a batch tensor per step, filled by a loop.
void hand_epoch(const std::vector<float>& all) {
  for (int64_t at = 0; at < kElements; at += kBatch) {
    const int64_t count = std::min(kBatch, kElements - at);
    torch::Tensor batch = torch::empty({count});
    float* out = batch.data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) out[i] = all[static_cast<size_t>(at + i)] * 2.f + 1.f;
    const cohort::Tensor tensor(batch);
    sink = sink + tensor.data<float>()[0];
  }
}

// The same with a tensor per element, as the function of tensors asks for.
void hand_tensor_epoch(const torch::Tensor& all) {
  for (int64_t at = 0; at < kElements; at += kBatch) {
    std::vector<torch::Tensor> parts;
    for (int64_t i = at; i < std::min(kElements, at + kBatch); ++i)
      parts.push_back(all[i] * 2.f + 1.f);
    sink = sink + torch::stack(parts).data_ptr<float>()[0];
  }
}

void pipelines() {
  const std::vector<float> all = values();
  const auto source = data::from_tensor_slices(data::Element(cohort::Tensor::from(values())));
  const auto ours = source.map([](float x) { return x * 2.f + 1.f; }).batch(kBatch).prefetch();
  const auto tensors =
      source.map([](cohort::Tensor x) { return x * 2.f + 1.f; }).batch(kBatch).prefetch();
  const torch::Tensor torch_all = torch::arange(kElements, torch::kFloat);
  run(Contest{"map.batch.prefetch / torch DataLoader (5x)", [&] { our_epoch(ours); }, torch_epoch,
              1, 1, 2, 0.2});
  run(Contest{"map.batch.prefetch / DataLoader of floats", [&] { our_epoch(ours); },
              torch_float_epoch, 1, 1, 3, 0.2});
  run(Contest{"map.batch.prefetch / hand loop (0.7)", [&] { our_epoch(ours); },
              [&] { hand_epoch(all); }, 3, 1, 11, 1 / 0.7});
  run(Contest{"map of tensors / torch DataLoader (5x)", [&] { our_epoch(tensors); }, torch_epoch, 1,
              1, 2, 0.2});
  run(Contest{"map of tensors / hand loop of tensors", [&] { our_epoch(tensors); },
              [&] { hand_tensor_epoch(torch_all); }, 1, 1, 2, 1 / 0.7});
  const auto images = data::from_tensor_slices(
      data::Element(cohort::Tensor(torch::zeros({60000, 28, 28}, torch::kByte))));
  const auto shuffled = images.shuffle(10'000).batch(256);
  const torch::Tensor pixels = torch::zeros({60000, 28, 28}, torch::kByte);
  run(Contest{
      "shuffled image batches / gather by index",
      [&] {
        for (const data::Element& batch : shuffled) sink = sink + static_cast<double>(batch.size());
      },
      [&] {
        const torch::Tensor order = torch::randperm(60000);
        for (int64_t at = 0; at < 60000; at += 256) {
          sink = sink +
                 static_cast<double>(
                     pixels.index_select(0, order.slice(0, at, std::min<int64_t>(60000, at + 256)))
                         .size(0));
        }
      },
      1, 1, 7, 1.5});
}

int64_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

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
    run(Contest{"TFRecord of " + std::to_string(size) + " bytes / cat",
                [&] {
                  for (const data::Element& record : dataset)
                    sink = sink + static_cast<double>(record.size());
                },
                [&] { sink = sink + std::system(cat.c_str()); }, 1, 1, 5, limit});
    std::filesystem::remove(path);
  }
}

// Rows of an idx file, beside reads of as many bytes into fresh batches.
void idx(const std::string& directory) {
  const std::string path = directory + "/rows";
  constexpr int64_t kRows = 60'000;
  constexpr int64_t kRowBytes = 28 * 28;
  constexpr int64_t kRowsPerBatch = 256;
  {
    std::ofstream file(path, std::ios::binary);
    const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0xea, 0x60, 0, 0, 0, 28, 0, 0, 0, 28};
    file.write(reinterpret_cast<const char*>(head), sizeof(head));
    file << std::string(kRows * kRowBytes, 'x');
  }
  const auto dataset = data::idx(path).batch(kRowsPerBatch);
  run(Contest{"idx batches / read() into batches",
              [&] {
                for (const data::Element& batch : dataset)
                  sink = sink + static_cast<double>(batch.size());
              },
              [&] {
                const int file = ::open(path.c_str(), O_RDONLY);
                for (int64_t at = 0; at < kRows; at += kRowsPerBatch) {
                  const int64_t count = std::min(kRowsPerBatch, kRows - at);
                  const torch::Tensor batch = torch::empty({count, 28, 28}, torch::kByte);
                  sink =
                      sink + static_cast<double>(::read(file, batch.data_ptr(), count * kRowBytes));
                }
                ::close(file);
              },
              1, 1, 11, 1.2});
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
    best = std::min(best, seconds_of([&] {
                      for (const data::Element& batch : dataset)
                        sink = sink + static_cast<double>(batch.size());
                    }));
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
  const int64_t before = resident_kilobytes();
  int64_t most = before;
  int64_t count = 0;
  const double seconds = seconds_of([&] {
    for (const data::Element& batch : data::fixed_length_records(path, 1 << 20).prefetch(4)) {
      sink = sink + static_cast<double>(batch.size());
      if (++count % 256 == 0) most = std::max(most, resident_kilobytes());
    }
  });
  std::printf("%-44s %10lld records in %.1f s, memory grew by %lld MB\n",
              "10 GB file, records of 1 MB", static_cast<long long>(count), seconds,
              static_cast<long long>((most - before) / 1024));
  std::filesystem::remove(path);

  const int64_t start = resident_kilobytes();
  int64_t peak = start;
  const auto large =
      data::range(2000).map([](int64_t) { return std::vector<float>(256 << 10); });  // 1 MB each
  count = 0;
  for (const data::Element& element : large.shuffle(64).prefetch(8)) {
    sink = sink + static_cast<double>(element.size());
    if (++count % 50 == 0) peak = std::max(peak, resident_kilobytes());
  }
  std::printf("%-44s memory grew by %lld MB, bound 64 + 8 + 2 MB\n",
              "shuffle(64).prefetch(8) of 1 MB elements",
              static_cast<long long>((peak - start) / 1024));
}

}  // namespace

// The parts that the arguments name; without arguments all.
int main(int count, char** names) {
  at::set_num_threads(1);
  const std::string directory = "/tmp/cohort_bench_" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  const std::pair<std::string, std::function<void()>> parts[] = {
      {"pipelines", pipelines},
      {"tfrecords", [&] { tfrecords(directory); }},
      {"idx", [&] { idx(directory); }},
      {"csv", [&] { csv(directory); }},
      {"memory", [&] { memory(directory); }}};
  for (const auto& [name, part] : parts) {
    if (count == 1 || std::find(names + 1, names + count, name) != names + count) part();
  }
  std::filesystem::remove_all(directory);
}
