#include "distribute/reduce/packed_all_reduce.h"

#include <fmt/format.h>

#include <map>

#include "base/raise.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "collectives/packing.h"
#include "distribute/reduce/reduce_tensors.h"

namespace cohort::internal {
namespace {

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

}  // namespace

std::vector<std::vector<Tensor>> PackedAllReduce::run(ReduceOp op,
                                                      std::span<const ReduceRequest> requests,
                                                      const CommunicationOptions& options) const {
  std::vector<std::vector<Tensor>> results(requests.size());
  std::map<std::vector<std::string>, std::vector<size_t>> by_devices;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<std::string>& devices = requests[i].destinations.devices();
    if (requests[i].value.devices() == devices && takes(devices)) {
      by_devices[devices].push_back(i);
    } else {
      results[i] = OneDevice().reduce_dense(op, requests.subspan(i, 1), options)[0];
    }
  }
  for (const auto& [devices, positions] : by_devices) {
    std::vector<DeviceTensors> tensors;
    for (const size_t i : positions) tensors.push_back(components_of(requests[i]));
    tensors = all_reduce_packed(*this, std::move(tensors), devices);
    for (size_t k = 0; k < positions.size(); ++k) results[positions[k]] = std::move(tensors[k]);
  }
  return results;
}

int checked_num_packs(int num_packs, const char* algorithm) {
  if (num_packs < 0) {
    raise(Code::InvalidArgument, "[{}] num_packs must be 0 (not packed) or more, got {}", algorithm,
          num_packs);
  }
  return num_packs;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

using internal::DeviceTensors;
using internal::on_device;

// Devices `begin` to `end`, and the one of them that adds up.
struct Group {
  size_t begin;
  size_t end;
  size_t root;
};

// The two halves of the devices; every device is in one of them, whatever their number.
struct Groups {
  // The root of one half is `root`; that of the other one rotates with it.
  Groups(size_t devices, size_t root) {
    const size_t half = devices / 2;
    Group first{0, half, 0};
    Group second{half, devices, half};
    const bool in_second = root >= half;
    Group& of_root = in_second ? second : first;
    Group& of_other = in_second ? first : second;
    of_root.root = root;
    if (of_other.begin < of_other.end) {
      of_other.root = of_other.begin + root % (of_other.end - of_other.begin);
    }
    main = of_root;
    side = of_other;
  }

  Group main;
  Group side;  // empty when there is one device
};

Tensor sum_group(ReduceOp op, const DeviceTensors& tensors, const Group& group,
                 const std::string& device) {
  const DeviceScope on(device);
  std::vector<Tensor> moved;
  for (size_t i = group.begin; i < group.end; ++i) moved.push_back(on_device(tensors[i], device));
  return internal::reduce_tensors(op, moved);
}

void hand_out(const Tensor& total, const Group& group, const std::vector<std::string>& devices,
              DeviceTensors& results) {
  const Tensor at_root = on_device(total, devices[group.root]);
  for (size_t i = group.begin; i < group.end; ++i) results[i] = on_device(at_root, devices[i]);
}

DeviceTensors reduce_one(ReduceOp op, const DeviceTensors& tensors,
                         const std::vector<std::string>& devices, size_t root) {
  const Groups groups(devices.size(), root);
  const std::string& home = devices[groups.main.root];
  Tensor total = sum_group(op, tensors, groups.main, home);
  if (groups.side.begin < groups.side.end) {
    const Tensor other = sum_group(op, tensors, groups.side, devices[groups.side.root]);
    const DeviceScope on(home);
    total = internal::reduce_tensors(op, std::vector<Tensor>{total, on_device(other, home)});
  }
  DeviceTensors results(devices.size());
  hand_out(total, groups.main, devices, results);
  hand_out(total, groups.side, devices, results);
  return results;
}

}  // namespace

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
      results.push_back(reduce_one(op, tensors[i], devices, i % devices.size()));
    }
    return results;
  };
  const auto takes = [](const std::vector<std::string>&) { return true; };
  return internal::PackedAllReduce{num_packs_, all_reduce, takes}.run(op, requests, options);
}

}  // namespace cohort
