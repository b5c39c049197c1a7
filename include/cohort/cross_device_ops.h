#pragma once

#include "cohort/device.h"
#include "cohort/internal/durations.h"
#include "cohort/values.h"

// Algorithms that make one value from values on several devices.

namespace cohort {

// CommunicationImplementation names the library that carries a reduction between devices.
enum class CommunicationImplementation { Auto, Ring, Nccl };
// Parses "auto", "ring" or "nccl" in any letter case. Throws InvalidArgument, with a list of the
// names, for any other name.
CommunicationImplementation parse_communication_implementation(std::string_view name);

// CommunicationOptions sets how replicas and workers carry out one collective call, such as a
// reduction. Results never depend on it.
struct CommunicationOptions {
  // Tensors are sent together until a pack exceeds this number of bytes; 0 = one pack.
  int64_t bytes_per_pack = 0;
  // How long the call may wait for the others before it throws DeadlineExceeded; 0, as in
  // TensorFlow: no limit. Empty: no limit between workers, 30 minutes between the replicas of a
  // process.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  CommunicationImplementation implementation = CommunicationImplementation::Auto;

  // Returns these options with the fields of `other` that do not have their default values.
  CommunicationOptions merged_with(const CommunicationOptions& other) const;
};
// Throws InvalidArgument if a value is outside its range.
void check(const CommunicationOptions& options);

// Destinations lists the devices that a result goes to. Of a tensor, a variable or a distributed
// value it takes only the devices.
class Destinations {
 public:
  Destinations(std::string_view device);  // InvalidArgument if empty
  Destinations(const char* device) : Destinations(std::string_view(device)) {}
  Destinations(const std::string& device) : Destinations(std::string_view(device)) {}
  Destinations(const Tensor& tensor);
  Destinations(const Variable& variable);
  Destinations(const DistributedValue& value);
  template <typename T>
  Destinations(const PerReplica<T>& values) : Destinations(DistributedValue(values)) {}
  // One destination for each name, in order. Throws InvalidArgument if the list is empty.
  static Destinations of_devices(std::vector<std::string> devices);

  const std::vector<std::string>& devices() const { return devices_; }

 private:
  std::vector<std::string> devices_;
};

// ReduceRequest is one value to reduce, with the devices that the result goes to.
struct ReduceRequest {
  DistributedValue value;
  Destinations destinations;
};

// CrossDeviceOps is the base class of algorithms that reduce between devices; derive from it to
// write your own. All algorithms give the same results up to the order of floating-point additions,
// which is fixed for each algorithm.
//
//   MirroredStrategy mirrored({"CPU:0", "CPU:1"},
//                             {.cross_device_ops = std::make_shared<ReductionToOneDevice>()});
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;

  // Reduces the components of `value` to one value and returns it on every destination, as a
  // Mirrored value. A plain value counts as one component. Mean divides by the number of
  // components, and makes floats from integers. Sparse values are concatenated, with their
  // duplicates. Throws InvalidArgument if the shapes differ.
  DistributedValue reduce(ReduceOp op, const DistributedValue& value,
                          const Destinations& destinations,
                          const CommunicationOptions& options = {});
  // Reduces each request; returns the results in order. Dtypes, dense and sparse may be mixed.
  std::vector<DistributedValue> batch_reduce(ReduceOp op, std::span<const ReduceRequest> requests,
                                             const CommunicationOptions& options = {});
  // Returns `value` on every destination.
  virtual DistributedValue broadcast(const Tensor& value, const Destinations& destinations);
  // Returns the components, concatenated along `axis`, on every destination.
  virtual DistributedValue gather(const DistributedValue& value, const Destinations& destinations,
                                  int axis, const CommunicationOptions& options = {});
  virtual std::string to_string() const = 0;

 protected:
  // Returns one tensor per request and destination. Within a request the components are dense, with
  // one dtype and shape, which the result has, too; `op` is Sum, Min, Max or Product. The caller
  // divides means and joins rows. In a function around run(), the caller asks once for each trace,
  // with symbols: use Cohort's ops only, and count runs elsewhere. In eager steps, steps of a
  // TorchModule and a function inside run(), the caller asks in every step, with values.
  using TensorLists = std::vector<std::vector<Tensor>>;
  virtual TensorLists reduce_dense(ReduceOp op, std::span<const ReduceRequest> requests,
                                   const CommunicationOptions& options) = 0;
};

// ReductionToOneDevice copies all components to one device, reduces them there and copies the
// result to the destinations.
class ReductionToOneDevice : public CrossDeviceOps {
 public:
  using Accumulate = std::function<Tensor(std::span<const Tensor>)>;
  // Without a device: the first destination. `accumulate`, if given, does the sums of Sum and Mean.
  explicit ReductionToOneDevice(std::string reduce_to_device = "", Accumulate accumulate = nullptr);
  std::string to_string() const override;

 protected:
  TensorLists reduce_dense(ReduceOp op, std::span<const ReduceRequest> requests,
                           const CommunicationOptions& options) override;

 private:
  std::string device_;
  Accumulate accumulate_;
};

// HierarchicalCopyAllReduce sums inside two groups of devices, then between the groups. It packs
// the tensors into `num_packs` equal parts (0 = no packing); InvalidArgument if negative.
class HierarchicalCopyAllReduce : public CrossDeviceOps {
 public:
  explicit HierarchicalCopyAllReduce(int num_packs = 1);
  std::string to_string() const override;

 protected:
  TensorLists reduce_dense(ReduceOp op, std::span<const ReduceRequest> requests,
                           const CommunicationOptions& options) override;

 private:
  int num_packs_;
};

// NcclAllReduce reduces with NVIDIA's NCCL, which it loads at the first use. Without NCCL, or for
// tensors that are not on GPUs, it logs this once and reduces on one device.
class NcclAllReduce : public CrossDeviceOps {
 public:
  explicit NcclAllReduce(int num_packs = 1);
  std::string to_string() const override;

 protected:
  // Whether NCCL can read and write the device's memory.
  virtual bool reaches(const DeviceName& device) const;
  TensorLists reduce_dense(ReduceOp op, std::span<const ReduceRequest> requests,
                           const CommunicationOptions& options) override;

 private:
  int num_packs_;
  std::shared_ptr<internal::NcclGroups> groups_;
};

// DirectAllReduce is the default for CPU devices of one process. It adds up the components in their
// order, a large tensor in slices by as many threads as there are devices. The result is one buffer
// that all destinations share.
class DirectAllReduce : public CrossDeviceOps {
 public:
  std::string to_string() const override;

 protected:
  TensorLists reduce_dense(ReduceOp op, std::span<const ReduceRequest> requests,
                           const CommunicationOptions& options) override;
};

// Returns a strategy's default algorithm for these devices, and logs (info) which and why.
std::shared_ptr<CrossDeviceOps> default_cross_device_ops(std::span<const std::string> devices);

}  // namespace cohort
