#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace cohort::internal {

struct TorchGenerator;

// A number of the generator that torch's functions draw from on this thread.
uint64_t draw_torch_seed();

// The state of that generator, as bytes. restore_torch_random() throws DataLoss for other bytes.
std::string torch_random_state();
void restore_torch_random(const std::string& state);

// While it lives, torch's functions that are given no generator draw on this thread, for tensors on
// the CPU, from the scope's generator, and leave torch's alone. Torch's own is one for all
// threads: replicas would draw from it in any order. For this thread, the scope's generator is
// torch's default: torch::manual_seed() sets its seed, get_state() and set_state() of the default
// its state.
class [[nodiscard]] TorchRandomScope {
 public:
  explicit TorchRandomScope(uint64_t seed);
  ~TorchRandomScope();
  TorchRandomScope(const TorchRandomScope&) = delete;
  TorchRandomScope& operator=(const TorchRandomScope&) = delete;

 private:
  std::unique_ptr<TorchGenerator> own_;
};

}  // namespace cohort::internal
