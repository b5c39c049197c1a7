#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace cohort::internal {

struct TorchGenerator;

// Draws a number from the generator that torch's functions use on this thread.
uint64_t draw_torch_seed();

// The state of that generator, as bytes. restore_torch_random() throws DataLoss if the bytes are
// not such a state.
std::string torch_random_state();
void restore_torch_random(const std::string& state);

// While it lives, torch's functions on this thread that are given no generator draw from the
// scope's generator, for tensors on the CPU, and do not change torch's generator. Torch's generator
// is shared by all threads, so replicas would draw from it in an arbitrary order. On this thread
// the scope's generator is torch's default generator: torch::manual_seed() sets its seed,
// get_state() and set_state() of the default generator its state.
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
