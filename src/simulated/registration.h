#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

// What the files of this module register with the kernel library, once per process and only where
// GPUs are simulated: a torch program may have a PrivateUse1 device of its own.
namespace cohort::internal {

inline constexpr c10::DeviceType kSimulated = c10::DeviceType::PrivateUse1;
inline constexpr c10::DispatchKey kSimulatedKey = c10::DispatchKey::PrivateUse1;

// The device guard, with streams and events: guard.cc.
void register_guard();
c10::Device current_simulated_device();
// Makes the device current, unless the index is negative, and returns the one that was.
c10::DeviceIndex exchange_simulated_device(c10::DeviceIndex index);

// What LibTorch 2 asks besides: torch2_hooks.cc.
void register_hooks();

// Making, viewing and copying tensors: tensors.cc.
void register_tensors(torch::Library& library);
c10::Allocator& simulated_allocator();
void grow_storage(c10::StorageImpl& storage, size_t bytes);
// Memory of the host from which a real GPU copies without a detour.
c10::Allocator& pinned_allocator();
bool is_pinned_address(const void* address);
// The same elements as a tensor of the host, which shares memory with `tensor`. Tensors of the host
// are returned as they are. The result must not outlive `tensor`.
at::Tensor host_alias(const at::Tensor& tensor);
// Fresh memory of the device with the elements of `host` and their strides.
at::Tensor onto_gpu(const at::Tensor& host, c10::Device device);
// Another view of the storage of `tensor`.
at::Tensor view_storage(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        int64_t offset);

// Everything else, by the kernels of the host: host_kernels.cc.
void register_host_kernels(torch::Library& library, torch::Library& all_namespaces);

// Turns an access of the host to device memory into an error that names the op: host_access.cc.
void watch_host_access();

}  // namespace cohort::internal
