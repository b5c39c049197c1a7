#include "distribute/result_pool.h"

#include <algorithm>

#include "cohort/device.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

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

std::shared_ptr<SharedResults> ResultPool::make(uint64_t signature, Specs specs) const {
  auto made = std::make_shared<SharedResults>();
  made->signature = signature;
  made->specs = std::move(specs);
  made->handles.resize(devices_.size());
  for (size_t replica = 0; replica < devices_.size(); ++replica) {
    const DeviceScope on(devices_[replica]);
    for (size_t i = 0; i < made->specs.size(); ++i) {
      const Spec& spec = made->specs[i];
      if (replica == 0) {
        const WritableTensor result = allocate_tensor(spec.dtype, spec.shape);
        made->data.push_back(result.data);
        made->handles[0].push_back(result.tensor);
      } else {
        made->handles[replica].push_back(view_elements(made->handles[0][i], 0, spec.shape));
      }
    }
  }
  return made;
}

std::shared_ptr<SharedResults> ResultPool::take(uint64_t signature,
                                                const std::function<Specs()>& specs) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& results) {
    return results->signature == signature && is_free(results);
  });
  if (found != kept_.rend()) {
    std::rotate(found.base() - 1, found.base(), kept_.end());
    return kept_.back();
  }
  if (kept_.size() == kMaxKept) kept_.erase(kept_.begin());
  kept_.push_back(make(signature, specs()));
  return kept_.back();
}

}  // namespace cohort::internal
