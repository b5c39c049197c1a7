// What LibTorch 2 asks of a device besides kernels and a guard.

#include "simulated/gpus.h"
#include "simulated/registration.h"
#include "simulated/torch_version.h"

#if COHORT_TORCH_2
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#endif

namespace cohort::internal {

#if COHORT_TORCH_2
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return simulated_gpu_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(simulated_gpu_count());
  }

  c10::DeviceIndex getCurrentDevice() const override { return current_simulated_device().index(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { exchange_simulated_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return exchange_simulated_device(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchange_simulated_device(index);
  }

  // Random numbers are those of the host.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  bool isPinnedPtr(const void* address) const override { return is_pinned_address(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    grow_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("simulated");
}
#else
void register_hooks() {}
#endif

}  // namespace cohort::internal
