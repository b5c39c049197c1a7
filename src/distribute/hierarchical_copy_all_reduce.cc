#include <fmt/format.h>

#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "distribute/packed_all_reduce.h"
#include "distribute/reduce_tensors.h"

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
