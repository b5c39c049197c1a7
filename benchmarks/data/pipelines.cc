// Pipelines beside torch's DataLoader and loops written by hand.

#include <cohort/torch.h>

#include <numeric>

#include "parts.h"

namespace cohort::bench {
namespace {

constexpr int64_t kElements = 1'000'000;
constexpr int64_t kBatch = 128;

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
  for (const torch::Tensor& batch : *loader) use(batch.data_ptr<float>()[0]);
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
  for (const torch::Tensor& batch : *loader) use(batch.data_ptr<float>()[0]);
}

void our_epoch(const data::Dataset& dataset) {
  for (const data::Element& batch : dataset) {
    const Tensor tensor = batch;
    use(tensor.data<float>()[0]);
  }
}

// What one writes without a library: a batch tensor per step, filled by a loop.
void hand_epoch(const std::vector<float>& all) {
  for (int64_t at = 0; at < kElements; at += kBatch) {
    const int64_t count = std::min(kBatch, kElements - at);
    torch::Tensor batch = torch::empty({count});
    float* out = batch.data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) out[i] = all[static_cast<size_t>(at + i)] * 2.f + 1.f;
    const Tensor tensor(batch);
    use(tensor.data<float>()[0]);
  }
}

// The same with a tensor per element, as the function of tensors asks for.
void hand_tensor_epoch(const torch::Tensor& all) {
  for (int64_t at = 0; at < kElements; at += kBatch) {
    std::vector<torch::Tensor> parts;
    for (int64_t i = at; i < std::min(kElements, at + kBatch); ++i)
      parts.push_back(all[i] * 2.f + 1.f);
    use(torch::stack(parts).data_ptr<float>()[0]);
  }
}

void numbers() {
  const std::vector<float> all = values();
  const auto source = data::from_tensor_slices(data::Element(Tensor::from(values())));
  const auto ours = source.map([](float x) { return x * 2.f + 1.f; }).batch(kBatch).prefetch();
  const auto tensors = source.map([](Tensor x) { return x * 2.f + 1.f; }).batch(kBatch).prefetch();
  const torch::Tensor torch_all = torch::arange(kElements, torch::kFloat);
  run({.name = "map.batch.prefetch / torch DataLoader (5x)",
       .ours = [&] { our_epoch(ours); },
       .theirs = torch_epoch,
       .rounds = 2,
       .limit = 0.2});
  run({.name = "map.batch.prefetch / DataLoader of floats",
       .ours = [&] { our_epoch(ours); },
       .theirs = torch_float_epoch,
       .rounds = 3,
       .limit = 0.2});
  run({.name = "map.batch.prefetch / hand loop (0.7)",
       .ours = [&] { our_epoch(ours); },
       .theirs = [&] { hand_epoch(all); },
       .calls = 3,
       .rounds = 11,
       .limit = 1 / 0.7});
  run({.name = "map of tensors / torch DataLoader (5x)",
       .ours = [&] { our_epoch(tensors); },
       .theirs = torch_epoch,
       .rounds = 2,
       .limit = 0.2});
  run({.name = "map of tensors / hand loop of tensors",
       .ours = [&] { our_epoch(tensors); },
       .theirs = [&] { hand_tensor_epoch(torch_all); },
       .rounds = 2,
       .limit = 1 / 0.7});
}

void images() {
  constexpr int64_t kImages = 60'000;
  constexpr int64_t kImagesPerBatch = 256;
  const torch::Tensor pixels = torch::zeros({kImages, 28, 28}, torch::kByte);
  const auto shuffled = data::from_tensor_slices(data::Element(Tensor(pixels.clone())))
                            .shuffle(10'000)
                            .batch(kImagesPerBatch);
  run({.name = "shuffled image batches / gather by index",
       .ours = [&] { walk(shuffled); },
       .theirs =
           [&] {
             const torch::Tensor order = torch::randperm(kImages);
             for (int64_t at = 0; at < kImages; at += kImagesPerBatch) {
               const int64_t end = std::min(kImages, at + kImagesPerBatch);
               use(static_cast<double>(pixels.index_select(0, order.slice(0, at, end)).size(0)));
             }
           },
       .rounds = 7,
       .limit = 1.5});
}

}  // namespace

void pipelines() {
  numbers();
  images();
}

}  // namespace cohort::bench
