#pragma once

// The buffers of a torch module's copies, kept equal between runs. Not for inclusion by users:
// include cohort/torch.h.

#include <torch/torch.h>

#include <cstring>
#include <optional>
#include <vector>

#include "cohort/internal/run_observer.h"
#include "cohort/internal/torch_tensors.h"

namespace cohort::internal {

// Inside `run` each replica writes its own buffers. Afterwards all have the mean of what they
// wrote, and the first replica's value of what is not floating, so that code outside of `run` finds
// the same on every worker and needs no other worker for it. A running mean of means is the mean of
// running means: training goes on as if each replica had kept its own.
class TorchStatistics {
 public:
  explicit TorchStatistics(SharedTensors& buffers) : buffers_(buffers) {}

  // Before a run, and before code outside of `run` uses the module. What such code writes to the
  // first copy, as a forward pass in training mode does, would be that worker's alone: it is
  // undone.
  void settle(size_t copies) {
    const torch::NoGradGuard unrecorded;
    for (size_t copy = 0; copy < copies; ++copy) buffers_.follow(copy);
    agreed_.resize(buffers_.variables().size());
    for (size_t i = 0; i < agreed_.size(); ++i) {
      const at::Tensor first = buffers_.of_copy(0)[i];
      if (agreed_[i].memory != first.data_ptr()) {  // the variable was given a value
        agreed_[i] = {first.data_ptr(), first.clone()};
        continue;
      }
      for (size_t copy = 0; copy < copies; ++copy) undo(copy, i);
    }
  }

  // After a run. All workers call it.
  void aggregate(Strategy& strategy, size_t copies) {
    const torch::NoGradGuard unrecorded;
    const std::vector<size_t> written = written_anywhere(strategy, copies);
    if (written.empty()) return;
    std::vector<std::optional<Tensor>> packs;
    for (size_t copy = 0; copy < copies; ++copy) {
      packs.emplace_back(pack(strategy, copy, written));
    }
    const at::Tensor means = strategy.reduce(ReduceOp::Mean, PerReplica<Tensor>(std::move(packs)));
    for (size_t copy = 0; copy < copies; ++copy) unpack(means, copy, written);
    for (const size_t i : written) agreed_[i].value.copy_(buffers_.of_copy(0)[i]);
  }

 private:
  struct Agreed {
    const void* memory = nullptr;  // of the first copy
    at::Tensor value = {};
  };

  // Compares bytes: batch norms do not count as writes what they write to their statistics.
  static bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
    if (!a.is_contiguous() || !b.is_contiguous()) return at::equal(a, b);
    return a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
  }

  void undo(size_t copy, size_t buffer) {
    at::Tensor now = buffers_.of_copy(copy)[buffer];
    if (same_bytes(now, agreed_[buffer].value)) return;
    now.copy_(agreed_[buffer].value);
    if (!warned_) warn_of_undone_change(buffers_.variables()[buffer].name());
    warned_ = true;
  }

  bool is_written(size_t buffer, size_t copies) const {
    for (size_t copy = 0; copy < copies; ++copy) {
      if (!same_bytes(buffers_.of_copy(copy)[buffer], agreed_[buffer].value)) return true;
    }
    return false;
  }

  // What a replica of any worker wrote. Workers can differ, as when one has no data, so they
  // exchange it.
  std::vector<size_t> written_anywhere(Strategy& strategy, size_t copies) const {
    if (agreed_.empty()) return {};
    std::vector<int32_t> flags;
    for (size_t i = 0; i < agreed_.size(); ++i) flags.push_back(is_written(i, copies) ? 1 : 0);
    if (strategy.num_replicas_in_sync() > static_cast<int>(copies)) {
      const std::vector<std::optional<Tensor>> parts(copies, Tensor::from(flags));
      flags = strategy.reduce(ReduceOp::Max, PerReplica<Tensor>(parts)).to_vector<int32_t>();
    }
    std::vector<size_t> written;
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] != 0) written.push_back(i);
    }
    return written;
  }

  // In double precision, where the mean of equal numbers is that number.
  Tensor pack(const Strategy& strategy, size_t copy, const std::vector<size_t>& written) const {
    const int id = strategy.extended().replica_id(copy);
    const double share = id == 0 ? strategy.num_replicas_in_sync() : 0;
    std::vector<at::Tensor> parts;
    for (const size_t i : written) {
      const at::Tensor value = buffers_.of_copy(copy)[i];
      const at::Tensor part = value.reshape({-1}).to(torch::kFloat64);
      parts.push_back(value.is_floating_point() ? part : part * share);
    }
    return torch::cat(parts);
  }

  void unpack(const at::Tensor& means, size_t copy, const std::vector<size_t>& written) {
    int64_t at = 0;
    for (const size_t i : written) {
      at::Tensor value = buffers_.of_copy(copy)[i];
      value.copy_(means.slice(0, at, at + value.numel()).reshape(value.sizes()));
      at += value.numel();
    }
  }

  SharedTensors& buffers_;
  std::vector<Agreed> agreed_;  // by buffer: what all copies have
  bool warned_ = false;
};

}  // namespace cohort::internal
