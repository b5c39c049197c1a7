#pragma once

// Finds writes to torch's tensors. Not for inclusion by users: include cohort/torch.h.

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace cohort::internal {

// What a tensor was like when it was last noted: how many writes torch has counted, and a few of
// its elements, other ones each time. Torch does not count what its optimizers and norms write.
// They change most elements, as a rule. An optimizer that changes few leaves a gradient in the
// parameter: while it is there, all elements count from the first look on.
class TensorMark {
 public:
  void note(const at::Tensor& tensor) {
    writes_ = tensor._version();
    ++turn_;
    sample_ = hash(tensor, kSamples);
    whole_.reset();
  }
  // The same for a tensor that has other memory now, which is not a write.
  void note_memory(const at::Tensor& tensor) {
    const int64_t writes = writes_;
    note(tensor);
    writes_ = writes;
  }
  bool is_written(const at::Tensor& tensor) {
    if (tensor._version() != writes_ || hash(tensor, kSamples) != sample_) return true;
    if (!tensor.grad().defined()) return false;
    const uint64_t whole = hash(tensor, static_cast<size_t>(tensor.numel()));
    if (!whole_) whole_ = whole;
    return *whole_ != whole;
  }

 private:
  static constexpr size_t kSamples = 8;
  static constexpr uint64_t kMix = 0x9e3779b97f4a7c15;

  // A hash of about `elements` elements, spread over the tensor.
  uint64_t hash(const at::Tensor& tensor, size_t elements) const {
    if (!tensor.is_non_overlapping_and_dense()) return 0;
    const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
    const auto count = static_cast<size_t>(tensor.numel());
    const size_t size = tensor.element_size();
    const size_t step = count <= elements ? 1 : count / elements;
    uint64_t sum = 0;
    for (size_t i = (turn_ * kMix >> 20) % step; i < count; i += step) {
      uint64_t element = 0;
      std::memcpy(&element, bytes + i * size, std::min(size, sizeof element));
      sum = (sum ^ element) * kMix;
      sum ^= sum >> 29;
    }
    return sum;
  }

  int64_t writes_ = 0;
  uint64_t turn_ = 0;
  uint64_t sample_ = 0;
  std::optional<uint64_t> whole_;
};

}  // namespace cohort::internal
