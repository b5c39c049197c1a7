// The algorithms that work on all devices of an all-reduce at the same time:
// HierarchicalCopyAllReduce and NcclAllReduce.

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "collectives/nccl_library.h"
#include "collectives/packing.h"
#include "distribute/reduce/tensor_reduction.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

// One tensor per device.
using DeviceTensors = std::vector<Tensor>;
// Reduces each of several tensors over the devices; every device gets the results.
using AllReduceTensors = std::function<std::vector<DeviceTensors>(
    const std::vector<DeviceTensors>& tensors, const std::vector<std::string>& devices)>;

// The common part of the algorithms that work on all devices of an all-reduce at the same time.
// Requests whose values are on the devices of their destinations go to `all_reduce`. Requests for
// the same devices go together, packed into `num_packs` vectors (0: each tensor by itself). The
// other requests are reduced on one device.
struct PackedAllReduce {
  int num_packs;
  AllReduceTensors all_reduce;
  // Whether `all_reduce` can work on these devices.
  std::function<bool(const std::vector<std::string>& devices)> takes;
};

// Reduces the requests that an algorithm does not take.
class OneDevice : public ReductionToOneDevice {
 public:
  using ReductionToOneDevice::reduce_dense;
};

DeviceTensors components_of(const ReduceRequest& request) {
  DeviceTensors tensors;
  for (const Gradient& component : request.value.components()) tensors.push_back(component.dense());
  return tensors;
}

bool sizes_are_known(const std::vector<DeviceTensors>& tensors) {
  for (const DeviceTensors& tensor : tensors) {
    for (const Tensor& component : tensor) {
      if (!component.shape().is_fully_known()) return false;
    }
  }
  return true;
}

// All tensors of one device as one vector, cut into packs.
std::vector<Tensor> pack(const std::vector<DeviceTensors>& tensors, size_t device,
                         const std::vector<int64_t>& sizes) {
  std::vector<Tensor> flat;
  for (const DeviceTensors& tensor : tensors) flat.push_back(reshape(tensor[device], {-1}));
  const Tensor whole = flat.size() == 1 ? flat[0] : concat(flat, 0);
  return sizes.size() == 1 ? std::vector<Tensor>{whole} : split(whole, sizes);
}

// Cuts the packs of one device into its tensors again.
void unpack(const std::vector<DeviceTensors>& packs, size_t device,
            std::vector<DeviceTensors>& tensors) {
  std::vector<Tensor> parts;
  for (const DeviceTensors& part : packs) parts.push_back(part[device]);
  const Tensor whole = parts.size() == 1 ? parts[0] : concat(parts, 0);
  int64_t begin = 0;
  for (DeviceTensors& tensor : tensors) {
    const Shape shape = tensor[device].shape();
    const int64_t end = begin + shape.num_elements();
    tensor[device] = reshape(slice(whole, {{.begin = begin, .end = end}}), shape);
    begin = end;
  }
}

std::vector<DeviceTensors> all_reduce_packed(const PackedAllReduce& algorithm,
                                             std::vector<DeviceTensors> tensors,
                                             const std::vector<std::string>& devices) {
  if (algorithm.num_packs == 0 || !sizes_are_known(tensors)) {
    return algorithm.all_reduce(tensors, devices);
  }
  int64_t total = 0;
  for (const DeviceTensors& tensor : tensors) total += tensor[0].shape().num_elements();
  const std::vector<int64_t> sizes = equal_packs(total, algorithm.num_packs);
  std::vector<DeviceTensors> packs(sizes.size());
  for (size_t device = 0; device < devices.size(); ++device) {
    const DeviceScope on(devices[device]);
    const std::vector<Tensor> own = pack(tensors, device, sizes);
    for (size_t i = 0; i < packs.size(); ++i) packs[i].push_back(own[i]);
  }
  packs = algorithm.all_reduce(packs, devices);
  for (size_t device = 0; device < devices.size(); ++device) {
    const DeviceScope on(devices[device]);
    unpack(packs, device, tensors);
  }
  return tensors;
}

// As CrossDeviceOps::reduce_dense.
std::vector<std::vector<Tensor>> reduce_packed(const PackedAllReduce& algorithm, ReduceOp op,
                                               std::span<const ReduceRequest> requests,
                                               const CommunicationOptions& options) {
  std::vector<std::vector<Tensor>> results(requests.size());
  std::map<std::vector<std::string>, std::vector<size_t>> by_devices;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<std::string>& devices = requests[i].destinations.devices();
    if (requests[i].value.devices() == devices && algorithm.takes(devices)) {
      by_devices[devices].push_back(i);
    } else {
      results[i] = OneDevice().reduce_dense(op, requests.subspan(i, 1), options)[0];
    }
  }
  for (const auto& [devices, positions] : by_devices) {
    std::vector<DeviceTensors> tensors;
    for (const size_t i : positions) tensors.push_back(components_of(requests[i]));
    tensors = all_reduce_packed(algorithm, std::move(tensors), devices);
    for (size_t k = 0; k < positions.size(); ++k) results[positions[k]] = std::move(tensors[k]);
  }
  return results;
}

// Throws InvalidArgument for a negative number.
int checked_num_packs(int num_packs, const char* algorithm) {
  if (num_packs < 0) {
    raise(Code::InvalidArgument, "[{}] num_packs must be 0 (not packed) or more, got {}", algorithm,
          num_packs);
  }
  return num_packs;
}

// ---- Hierarchical copies

// Devices `begin` to `end`, and the one of them that adds up.
struct DeviceHalf {
  size_t begin;
  size_t end;
  size_t root;
};

// The two halves of the devices; every device is in one of them, whatever their number. The root of
// the main half is `root`; that of the other half, which is empty when there is one device, rotates
// with it.
struct DeviceHalves {
  DeviceHalves(size_t devices, size_t root)
      : main{devices / 2, devices, root}, side{0, devices / 2, 0} {
    if (root < main.begin) {
      std::swap(main.begin, side.begin);
      std::swap(main.end, side.end);
    }
    side.root = side.begin;
    if (side.begin < side.end) side.root += root % (side.end - side.begin);
  }

  DeviceHalf main;
  DeviceHalf side;
};

Tensor sum_half(ReduceOp op, const DeviceTensors& tensors, const DeviceHalf& half,
                const std::string& device) {
  const DeviceScope on(device);
  std::vector<Tensor> moved;
  for (size_t i = half.begin; i < half.end; ++i) moved.push_back(on_device(tensors[i], device));
  return reduce_tensors(op, moved);
}

void hand_out(const Tensor& total, const DeviceHalf& half, const std::vector<std::string>& devices,
              DeviceTensors& results) {
  const Tensor at_root = on_device(total, devices[half.root]);
  for (size_t i = half.begin; i < half.end; ++i) results[i] = on_device(at_root, devices[i]);
}

DeviceTensors reduce_one(ReduceOp op, const DeviceTensors& tensors,
                         const std::vector<std::string>& devices, size_t root) {
  const DeviceHalves halves(devices.size(), root);
  const std::string& home = devices[halves.main.root];
  Tensor total = sum_half(op, tensors, halves.main, home);
  if (halves.side.begin < halves.side.end) {
    const Tensor other = sum_half(op, tensors, halves.side, devices[halves.side.root]);
    const DeviceScope on(home);
    total = reduce_tensors(op, std::vector<Tensor>{total, on_device(other, home)});
  }
  DeviceTensors results(devices.size());
  hand_out(total, halves.main, devices, results);
  hand_out(total, halves.side, devices, results);
  return results;
}

// ---- NCCL

std::vector<int> indices_of(const std::vector<std::string>& devices) {
  std::vector<int> indices;
  for (const std::string& device : devices) {
    indices.push_back(DeviceName::parse(device).index.value_or(0));
  }
  return indices;
}

// Memory for the results, on the devices of the tensors.
std::vector<std::vector<WritableTensor>> allocate_results(const std::vector<DeviceTensors>& tensors,
                                                          const std::vector<std::string>& devices) {
  std::vector<std::vector<WritableTensor>> results(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = 0; k < devices.size(); ++k) {
      const DeviceScope on(devices[k]);
      results[i].push_back(allocate_like(tensors[i][k]));
    }
  }
  return results;
}

// A program makes many strategies, and it is the same machine for all of them.
void warn_once(const std::vector<std::string>& devices) {
  static std::atomic<bool> has_warned = false;
  if (has_warned.exchange(true)) return;
  log_warning("[Nccl] reduces between GPUs only, not on {}; reducing on one device",
              fmt::join(devices, ", "));
}

}  // namespace

// The communicators of the devices that were used so far. Thread-safe: collectives of one object
// run one after the other, because two that are started in different orders wait for each other.
class NcclGroups {
 public:
  NcclGroups() = default;
  ~NcclGroups() {
    for (const auto& [key, comms] : groups_) {
      for (NcclComm* comm : comms) key.first->comm_destroy(comm);
    }
  }

  std::vector<DeviceTensors> all_reduce(const NcclLibrary& library, ReduceOp op,
                                        const std::vector<DeviceTensors>& tensors,
                                        const std::vector<std::string>& devices) {
    const std::lock_guard one_at_a_time(reducing_);
    const Comms& comms = comms_for(library, indices_of(devices));
    const auto results = allocate_results(tensors, devices);
    int failure = 0;  // the first result that is not success
    std::string_view failed;
    const auto note = [&](int result, std::string_view call) {
      if (failure == 0) std::tie(failure, failed) = std::tie(result, call);
    };
    note(library.group_start(), "ncclGroupStart");
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (size_t k = 0; k < comms.size(); ++k) {
        const Tensor& own = tensors[i][k];
        // The stream is the default one, in whose order the kernel library's own work runs.
        note(library.all_reduce(element_bytes(own), results[i][k].data,
                                static_cast<size_t>(own.size()), *nccl_dtype(own.dtype()),
                                *nccl_op(op), comms[k], nullptr),
             "ncclAllReduce");
      }
    }
    note(library.group_end(), "ncclGroupEnd");
    library.check(failure, failed);
    std::vector<DeviceTensors> reduced(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      for (const WritableTensor& result : results[i]) reduced[i].push_back(result.tensor);
    }
    return reduced;
  }

 private:
  using Comms = std::vector<NcclComm*>;
  const Comms& comms_for(const NcclLibrary& library, const std::vector<int>& indices) {
    Comms& comms = groups_[{&library, indices}];
    if (comms.empty()) {
      Comms made(indices.size());
      library.check(
          library.comm_init_all(made.data(), static_cast<int>(made.size()), indices.data()),
          "ncclCommInitAll");
      comms = std::move(made);
    }
    return comms;
  }

  Turn reducing_;  // of the thread whose reduction it is: NCCL wants one order on all devices
  std::map<std::pair<const NcclLibrary*, std::vector<int>>, Comms> groups_;  // guarded by reducing_
};

}  // namespace internal

using internal::DeviceTensors;

HierarchicalCopyAllReduce::HierarchicalCopyAllReduce(int num_packs)
    : num_packs_(internal::checked_num_packs(num_packs, "HierarchicalCopyAllReduce")) {}

std::string HierarchicalCopyAllReduce::to_string() const {
  return fmt::format("HierarchicalCopyAllReduce(num_packs={})", num_packs_);
}

std::vector<std::vector<Tensor>> HierarchicalCopyAllReduce::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  const auto all_reduce = [op](const std::vector<DeviceTensors>& tensors,
                               const std::vector<std::string>& devices) {
    std::vector<DeviceTensors> results;
    for (size_t i = 0; i < tensors.size(); ++i) {
      results.push_back(internal::reduce_one(op, tensors[i], devices, i % devices.size()));
    }
    return results;
  };
  const auto takes = [](const std::vector<std::string>&) { return true; };
  return internal::reduce_packed({num_packs_, all_reduce, takes}, op, requests, options);
}

NcclAllReduce::NcclAllReduce(int num_packs)
    : num_packs_(internal::checked_num_packs(num_packs, "NcclAllReduce")),
      groups_(std::make_shared<internal::NcclGroups>()) {}

std::string NcclAllReduce::to_string() const {
  return fmt::format("NcclAllReduce(num_packs={})", num_packs_);
}

bool NcclAllReduce::reaches(const DeviceName& device) const { return device.type == "GPU"; }

std::vector<std::vector<Tensor>> NcclAllReduce::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  const DType dtype = requests[0].value[0].dense().dtype();
  const auto takes = [&](const std::vector<std::string>& devices) {
    const bool all = std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
      return reaches(DeviceName::parse(device));
    });
    if (!all) internal::warn_once(devices);
    return all && internal::nccl_library() != nullptr && internal::nccl_dtype(dtype).has_value();
  };
  const auto all_reduce = [&](const std::vector<DeviceTensors>& tensors,
                              const std::vector<std::string>& devices) {
    return groups_->all_reduce(*internal::nccl_library(), op, tensors, devices);
  };
  return internal::reduce_packed({num_packs_, all_reduce, takes}, op, requests, options);
}

}  // namespace cohort
