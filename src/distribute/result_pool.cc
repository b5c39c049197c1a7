#include "distribute/result_pool.h"

#include <algorithm>

#include "cohort/device.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

bool same_specs(std::span<const Spec> a, std::span<const Spec> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Spec& x, const Spec& y) {
    return x.dtype == y.dtype && x.shape == y.shape;
  });
}

bool is_free(const std::shared_ptr<SharedResults>& results) {
  if (results.use_count() != 1) return false;
  for (const std::vector<Tensor>& own : results->handles) {
    for (const Tensor& tensor : own) {
      if (!is_held_here_only(tensor, results->handles.size())) return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<SharedResults> ResultPool::make(std::span<const Spec> specs) const {
  auto made = std::make_shared<SharedResults>();
  made->specs.assign(specs.begin(), specs.end());
  made->handles.resize(devices_.size());
  for (size_t replica = 0; replica < devices_.size(); ++replica) {
    const DeviceScope on(devices_[replica]);
    for (size_t i = 0; i < specs.size(); ++i) {
      if (replica == 0) {
        const WritableTensor result = allocate_tensor(specs[i].dtype, specs[i].shape);
        made->data.push_back(result.data);
        made->handles[0].push_back(result.tensor);
      } else {
        made->handles[replica].push_back(view_elements(made->handles[0][i], 0, specs[i].shape));
      }
    }
  }
  return made;
}

std::shared_ptr<SharedResults> ResultPool::take(std::span<const Spec> specs) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& results) {
    return same_specs(results->specs, specs) && is_free(results);
  });
  if (found != kept_.rend()) {
    std::rotate(found.base() - 1, found.base(), kept_.end());
    return kept_.back();
  }
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back(make(specs));
  return kept_.back();
}

}  // namespace cohort::internal
