#pragma once

// Detects writes to torch's tensors. Users include cohort/torch.h instead.

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

namespace cohort::internal {

// Returns a hash of about `elements` elements, spread over the tensor. Each `turn` selects other
// elements.
inline uint64_t hash_elements(const at::Tensor& tensor, size_t elements, uint64_t turn) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  if (!tensor.is_non_overlapping_and_dense()) return 0;
  const at::Tensor here = tensor.cpu();  // itself, unless a GPU has it
  const auto* bytes = static_cast<const unsigned char*>(here.data_ptr());
  const auto count = static_cast<size_t>(tensor.numel());
  const size_t size = tensor.element_size();
  const size_t step = count <= elements ? 1 : count / elements;
  uint64_t sum = 0;
  for (size_t i = (turn * kMix >> 20) % step; i < count; i += step) {
    uint64_t element = 0;
    std::memcpy(&element, bytes + i * size, std::min(size, sizeof element));
    sum = (sum ^ element) * kMix;
    sum ^= sum >> 29;
  }
  return sum;
}

inline uint64_t hash_all(const at::Tensor& tensor) {
  return hash_elements(tensor, static_cast<size_t>(tensor.numel()), 0);
}

// While it lives, backward passes of this thread belong to the library, and no step() of a torch
// optimizer follows them.
class [[nodiscard]] OwnBackward {
 public:
  OwnBackward() { ++depth_; }
  ~OwnBackward() { --depth_; }
  OwnBackward(const OwnBackward&) = delete;
  OwnBackward& operator=(const OwnBackward&) = delete;

  static bool is_open() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

// The node that adds to the gradient of a parameter, with shared ownership: std::shared_ptr in
// LibTorch 1.13, c10::intrusive_ptr in 2.15.
using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

// BackwardWatch remembers the content of a parameter at the time when the program's backward()
// first left a gradient in it. A torch optimizer writes later. Thread-safe, because a replica may
// run a backward pass through another replica's copy.
class BackwardWatch {
 public:
  // The parameter must require a gradient. Autograd uses the parameter's accumulator while this
  // object holds it.
  explicit BackwardWatch(const at::Tensor& parameter)
      : parameter_(parameter),
        accumulator_(torch::autograd::impl::grad_accumulator(parameter)),
        key_(accumulator_->add_post_hook(std::make_unique<Hook>(*this))) {}
  ~BackwardWatch() { accumulator_->del_post_hook(key_); }
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  // Returns the hash of all elements at that time, or nullopt without a backward pass since the
  // last forget().
  std::optional<uint64_t> before() const {
    const std::lock_guard lock(mutex_);
    return before_;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    before_.reset();
  }

 private:
  class Hook : public torch::autograd::FunctionPostHook {
   public:
    explicit Hook(BackwardWatch& watch) : watch_(watch) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      if (!OwnBackward::is_open()) watch_.note();
      return outputs;
    }

   private:
    BackwardWatch& watch_;
  };

  void note() {
    const std::lock_guard lock(mutex_);
    if (!before_) before_ = hash_all(parameter_);
  }

  const at::Tensor parameter_;
  const GradAccumulator accumulator_;
  const uintptr_t key_;
  mutable std::mutex mutex_;
  std::optional<uint64_t> before_;  // guarded by mutex_
};

// TensorMark remembers the state of a tensor: how many writes torch has counted, and a few
// elements, other ones each time. Torch does not count the writes of its optimizers and norms,
// because these write to data(), which has a count of its own. As a rule they change most elements.
// An optimizer that changes few elements needs a gradient in the parameter. Therefore all elements
// are compared after a backward() has left a gradient there, or else after the first check that
// finds one.
class TensorMark {
 public:
  // Called for a parameter that learns, before backward passes.
  void watch(const at::Tensor& parameter) {
    watch_ = parameter.requires_grad() ? std::make_unique<BackwardWatch>(parameter) : nullptr;
  }
  void note(const at::Tensor& tensor) {
    writes_ = tensor._version();
    ++turn_;
    sample_ = hash_elements(tensor, kSamples, turn_);
    forget_whole();
  }
  // Like note(), for a tensor that was given other memory, which is not a write.
  void note_memory(const at::Tensor& tensor) {
    const int64_t writes = writes_;
    note(tensor);
    writes_ = writes;
  }
  bool is_written(const at::Tensor& tensor) {
    if (tensor._version() != writes_) return true;
    if (hash_elements(tensor, kSamples, turn_) != sample_) return true;
    const bool has_gradient = tensor.grad().defined();
    if (!whole_ && watch_) whole_ = watch_->before();
    if (!whole_ && !has_gradient) return false;
    const uint64_t whole = hash_all(tensor);
    if (!whole_) whole_ = whole;
    if (*whole_ != whole) return true;
    if (!has_gradient) forget_whole();
    return false;
  }

 private:
  static constexpr size_t kSamples = 8;

  void forget_whole() {
    whole_.reset();
    if (watch_) watch_->forget();
  }

  int64_t writes_ = 0;
  uint64_t turn_ = 0;
  uint64_t sample_ = 0;
  std::optional<uint64_t> whole_;  // hash of all elements
  std::unique_ptr<BackwardWatch> watch_;
};

}  // namespace cohort::internal
