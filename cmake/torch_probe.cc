// cohort_probe_torch() links and runs this program with the LibTorch that it found. The program
// prints how that LibTorch was built. It declares the functions itself, because LibTorch's headers
// take a compiler many seconds.
#include <cstdint>
#include <iostream>
#include <string>

namespace c10 {
struct Allocator;
void SetCPUAllocator(Allocator* allocator, uint8_t priority);
}  // namespace c10

namespace at {
class Tensor;
std::string show_config();
void set_num_threads(int count);
}  // namespace at

namespace torch::nn::init {
at::Tensor zeros_(at::Tensor tensor);
}  // namespace torch::nn::init

int main() {
  // Taken and not called, so that the linker must find a function of each part: memory, kernels,
  // modules. Without volatile the compiler leaves them out.
  [[maybe_unused]] void (*volatile memory)(c10::Allocator*, uint8_t) = c10::SetCPUAllocator;
  [[maybe_unused]] void (*volatile kernels)(int) = at::set_num_threads;
  [[maybe_unused]] at::Tensor (*volatile modules)(at::Tensor) = torch::nn::init::zeros_;
  std::cout << at::show_config() << '\n';
}
