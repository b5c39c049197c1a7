#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/device.h"
#include "cohort/values.h"

// How values that lie on several devices become one value.

namespace cohort {

namespace internal {
class NcclGroups;  // communicators, by devices
}

enum class CommunicationImplementation { Auto, Ring, Nccl };
// "ring" in any letter case. Throws InvalidArgument, listing the names, for any other name.
CommunicationImplementation parse_communication_implementation(std::string_view name);

// Hints: results never depend on them.
struct CommunicationOptions {
  // Tensors are sent together until a pack exceeds this; 0 = one pack.
  int64_t bytes_per_pack = 0;
  // How long a collective may take before it throws DeadlineExceeded; 0 = for ever.
  std::optional<double> timeout_seconds = std::nullopt;
  CommunicationImplementation implementation = CommunicationImplementation::Auto;

  // This with the fields of `other` that are not at their defaults.
  CommunicationOptions merged_with(const CommunicationOptions& other) const;
};
// Throws InvalidArgument for values outside their range.
void check(const CommunicationOptions& options);

// Devices that a result goes to. Of a tensor, a variable or a value only its devices matter.
class Destinations {
 public:
  Destinations(std::string_view device);  // InvalidArgument when empty
  Destinations(const char* device) : Destinations(std::string_view(device)) {}
  Destinations(const std::string& device) : Destinations(std::string_view(device)) {}
  Destinations(const Tensor& tensor);
  Destinations(const Variable& variable);
  Destinations(const DistributedValue& value);
  template <typename T>
  Destinations(const PerReplica<T>& values) : Destinations(DistributedValue(values)) {}
  // One for each name, in order. InvalidArgument when there is none.
  static Destinations of_devices(std::vector<std::string> devices);

  const std::vector<std::string>& devices() const { return devices_; }

 private:
  std::vector<std::string> devices_;
};

struct ReduceRequest {
  DistributedValue value;
  Destinations destinations;
};

// An algorithm for reductions between devices. All algorithms give the same results, up to the
// order of floating-point additions, which is fixed for each algorithm. Derive to write another.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;

  // The components of `value` made into one, on every destination: Mirrored. A plain value counts
  // as one component. Mean divides by the number of components, and integers become floating.
  // Sparse values are joined, duplicates kept. Throws InvalidArgument when shapes differ.
  DistributedValue reduce(ReduceOp op, const DistributedValue& value,
                          const Destinations& destinations,
                          const CommunicationOptions& options = {});
  // One result for each request, in order. Any mixture of dtypes, dense and sparse.
  std::vector<DistributedValue> batch_reduce(ReduceOp op, std::span<const ReduceRequest> requests,
                                             const CommunicationOptions& options = {});
  // `value` on every destination.
  virtual DistributedValue broadcast(const Tensor& value, const Destinations& destinations);
  // The components one after the other along `axis`, on every destination.
  virtual DistributedValue gather(const DistributedValue& value, const Destinations& destinations,
                                  int axis, const CommunicationOptions& options = {});
  virtual std::string to_string() const = 0;

 protected:
  // Called with dense components of one dtype and equal shapes within each request, op Sum, Min,
  // Max or Product; the caller divides means and joins rows. Returns one tensor per request and
  // destination.
  virtual std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                        std::span<const ReduceRequest> requests,
                                                        const CommunicationOptions& options) = 0;
};

// Copies everything to one device, adds up there, copies the result out.
class ReductionToOneDevice : public CrossDeviceOps {
 public:
  using Accumulate = std::function<Tensor(std::span<const Tensor>)>;
  // Without a device: the first destination. Without a function: the sum (or what op asks for).
  explicit ReductionToOneDevice(std::string reduce_to_device = "", Accumulate accumulate = nullptr);
  std::string to_string() const override;

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;

 private:
  std::string device_;
  Accumulate accumulate_;
};

// Sums inside two groups of devices, then between them. Tensors are packed into `num_packs` equal
// parts (0 = not packed); negative is InvalidArgument.
class HierarchicalCopyAllReduce : public CrossDeviceOps {
 public:
  explicit HierarchicalCopyAllReduce(int num_packs = 1);
  std::string to_string() const override;

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;

 private:
  int num_packs_;
};

// NVIDIA's NCCL, loaded when first used. Where it is missing, or for tensors that are not on GPUs,
// it logs that once and reduces on one device.
class NcclAllReduce : public CrossDeviceOps {
 public:
  explicit NcclAllReduce(int num_packs = 1);
  std::string to_string() const override;

 protected:
  // Whether NCCL can read and write the device's memory.
  virtual bool reaches(const DeviceName& device) const;
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;

 private:
  int num_packs_;
  std::shared_ptr<internal::NcclGroups> groups_;
};

// The default for CPU devices of one process: components are added up in their order, large ones by
// as many threads as there are devices, each a slice; the result is one buffer that all share.
class DirectAllReduce : public CrossDeviceOps {
 public:
  std::string to_string() const override;

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;
};

// What a strategy uses on these devices by default; logs (info) which, and why.
std::shared_ptr<CrossDeviceOps> default_cross_device_ops(std::span<const std::string> devices);

}  // namespace cohort
