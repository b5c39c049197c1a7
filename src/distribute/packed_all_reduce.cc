#include "distribute/packed_all_reduce.h"

#include <map>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "collectives/packing.h"

namespace cohort::internal {
namespace {

// Everything that an algorithm does not take.
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

// And back.
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
