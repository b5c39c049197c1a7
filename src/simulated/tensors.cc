// Tensors of simulated GPUs: their memory, views of it, and copies between devices.

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/mutex.h"
#include "simulated/gpus.h"
#include "simulated/registration.h"
#include "simulated/torch_version.h"

namespace cohort::internal {
namespace {

SimulatedGpu& gpu_of(c10::Device device) { return simulated_gpu(device.index()); }

void release_address(void* address) {
  if (SimulatedGpu* const gpu = gpu_of_address(address)) gpu->memory.release(address);
}

// Allocates on the current device.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) COHORT_ALLOCATE_CONST override {
    const c10::Device device = current_simulated_device();
    SimulatedGpu& gpu = gpu_of(device);
    gpu.require_alive();
    void* const address = bytes > 0 ? gpu.memory.allocate(bytes) : nullptr;
    return {address, address, &release_address, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_address; }
#if COHORT_TORCH_2
  void copy_data(void* to, const void* from, size_t bytes) const override {
    DeviceMemory& memory = gpu_of_address(to)->memory;
    std::memcpy(memory.on_host(to), memory.on_host(from), bytes);
  }
#endif
};

// ---- Pinned memory

class PinnedBlocks final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) COHORT_ALLOCATE_CONST override {
    c10::DataPtr block = c10::GetCPUAllocator()->allocate(bytes);
    const auto* const begin = static_cast<const std::byte*>(block.get());
    const std::lock_guard lock(mutex_);
    ends_[begin] = begin + bytes;
    void* const context = block.release_context();
    return {context, context, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
#if COHORT_TORCH_2
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
#endif

  bool contains(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    const auto after = ends_.upper_bound(at);
    return after != ends_.begin() && at < std::prev(after)->second;
  }

  static PinnedBlocks& get() {
    static auto& blocks = *new PinnedBlocks;
    return blocks;
  }

 private:
  static void release(void* block) {
    {
      const std::lock_guard lock(get().mutex_);
      get().ends_.erase(static_cast<const std::byte*>(block));
    }
    c10::GetCPUAllocator()->raw_deleter()(block);
  }

  mutable Mutex mutex_;
  mutable std::map<const std::byte*, const std::byte*> ends_;  // guarded by mutex_; by beginning
};

bool is_pinned(const at::Tensor& tensor, c10::optional<c10::Device>) {
  return tensor.is_cpu() && tensor.has_storage() && is_pinned_address(tensor.storage().data());
}

at::Tensor pin_memory(const at::Tensor& tensor, c10::optional<c10::Device>) {
  at::Tensor pinned = at::detail::empty_generic(tensor.sizes(), &pinned_allocator(),
                                                c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                tensor.scalar_type(), c10::nullopt);
  return pinned.copy_(tensor);
}

// ---- Making and viewing

c10::Device known_device(c10::optional<c10::Device> device) {
  return device && device->has_index() ? *device : current_simulated_device();
}

at::Tensor empty(c10::IntArrayRef sizes, c10::optional<c10::ScalarType> dtype,
                 c10::optional<c10::Layout>, c10::optional<c10::Device> device, c10::optional<bool>,
                 c10::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard on(known_device(device));
  return at::detail::empty_generic(sizes, &simulated_allocator(),
                                   c10::DispatchKeySet(kSimulatedKey), c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         c10::optional<c10::ScalarType> dtype, c10::optional<c10::Layout>,
                         c10::optional<c10::Device> device, c10::optional<bool>) {
  const c10::DeviceGuard on(known_device(device));
  return at::detail::empty_strided_generic(sizes, strides, &simulated_allocator(),
                                           c10::DispatchKeySet(kSimulatedKey),
                                           c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                      c10::optional<int64_t> offset) {
  return view_storage(tensor, sizes, strides, offset.value_or(tensor.storage_offset()));
}

const at::Tensor& resize(const at::Tensor& tensor, c10::IntArrayRef sizes,
                         c10::optional<c10::MemoryFormat>) {
  const int64_t elements = tensor.storage_offset() + c10::multiply_integers(sizes);
  grow_storage(*tensor.storage().unsafeGetStorageImpl(),
               static_cast<size_t>(elements) * tensor.itemsize());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

// Module::to and set_data ask.
bool has_compatible_type(const at::Tensor& a, const at::Tensor& b) {
  return a.layout() == b.layout();
}

// ---- Copies

void count_copy(const at::Tensor& from, const at::Tensor& to) {
  const auto bytes = static_cast<int64_t>(to.nbytes());
  const auto add = [](std::atomic<int64_t>& counter, int64_t more) {
    counter.fetch_add(more, std::memory_order_relaxed);
  };
  if (to.is_cpu()) {
    SimulatedGpu& gpu = gpu_of(from.device());
    add(gpu.copies_to_host, 1);
    add(gpu.bytes_to_host, bytes);
  } else if (from.is_cpu()) {
    SimulatedGpu& gpu = gpu_of(to.device());
    add(gpu.copies_from_host, 1);
    add(gpu.bytes_from_host, bytes);
    if (is_pinned(from, c10::nullopt)) add(gpu.pinned_copies, 1);
  } else if (from.device() != to.device()) {
    SimulatedGpu& gpu = gpu_of(to.device());
    add(gpu.copies_from_peers, 1);
    add(gpu.bytes_from_peers, bytes);
  }
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  for (const at::Tensor& tensor : {from, to}) {
    if (!tensor.is_cpu()) gpu_of(tensor.device()).require_alive();
  }
  const at::AutoDispatchBelowADInplaceOrView no_gradients;
  host_alias(to).copy_(host_alias(from));
  count_copy(from, to);
  return to;
}

}  // namespace

c10::Allocator& simulated_allocator() {
  static auto& allocator = *new Allocator;
  return allocator;
}

void grow_storage(c10::StorageImpl& storage, size_t bytes) {
  if (bytes <= storage.nbytes()) return;
  const c10::DeviceGuard on(storage.device());
  const DeviceMemory& memory = gpu_of(storage.device()).memory;
  c10::DataPtr larger = simulated_allocator().allocate(bytes);
  if (storage.nbytes() > 0) {
    std::memcpy(memory.on_host(larger.get()), memory.on_host(storage.data()), storage.nbytes());
  }
  storage.set_data_ptr_noswap(std::move(larger));
  storage.set_nbytes(bytes);
}

c10::Allocator& pinned_allocator() { return PinnedBlocks::get(); }

bool is_pinned_address(const void* address) { return PinnedBlocks::get().contains(address); }

at::Tensor host_alias(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kSimulated) return tensor;
  const c10::Storage& storage = tensor.storage();
  std::byte* const bytes = gpu_of(tensor.device()).memory.on_host(storage.data());
  c10::Storage alias(c10::Storage::use_byte_size_t(), storage.nbytes(),
                     c10::DataPtr(bytes, c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
                     /*resizable=*/true);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(alias), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  made.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  return made;
}

at::Tensor view_storage(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        int64_t offset) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  return made;
}

at::Tensor onto_gpu(const at::Tensor& host, c10::Device device) {
  at::Tensor made = at::empty_strided(host.sizes(), host.strides(), host.options().device(device));
  // All bytes between the first and the last element, as the strides are the same.
  const size_t bytes = made.storage().nbytes();
  if (host.numel() > 0) {
    std::memcpy(gpu_of(device).memory.on_host(made.storage().data()), host.data_ptr(), bytes);
  }
  return made;
}

void register_tensors(torch::Library& library) {
  c10::SetAllocator(kSimulated, &simulated_allocator());
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", as_strided);
  library.impl("resize_", resize);
  library.impl("_copy_from", copy_from);
  library.impl("is_pinned", is_pinned);
  library.impl("_pin_memory", pin_memory);
  library.impl("_has_compatible_shallow_copy_type", has_compatible_type);
  static auto& autograd = *new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd.impl("_has_compatible_shallow_copy_type", has_compatible_type);
}

}  // namespace cohort::internal
