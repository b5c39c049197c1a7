#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
namespace {

// Which elements are equal. Groups are numbered in the order of their first elements.
struct Groups {
  std::vector<int64_t> firsts;   // per group: position of its first element
  std::vector<int64_t> counts;   // per group: number of its elements
  std::vector<int64_t> inverse;  // per element: its group
};

bool equals_nothing(double key) { return std::isnan(key); }
template <typename Key>
bool equals_nothing(const Key&) {
  return false;
}

template <typename Key>
Groups group_equal(std::span<const Key> keys) {
  Groups groups;
  groups.inverse.reserve(keys.size());
  std::unordered_map<Key, int64_t> known;
  for (size_t i = 0; i < keys.size(); ++i) {
    auto group = static_cast<int64_t>(groups.firsts.size());
    // NaNs would all meet in one bucket of the map.
    if (!equals_nothing(keys[i])) group = known.try_emplace(keys[i], group).first->second;
    if (group == static_cast<int64_t>(groups.firsts.size())) {
      groups.firsts.push_back(static_cast<int64_t>(i));
      groups.counts.push_back(0);
    }
    ++groups.counts[static_cast<size_t>(group)];
    groups.inverse.push_back(group);
  }
  return groups;
}

// Numbers are compared in the widest type of their kind, which holds all of them exactly.
Groups groups_of(const Tensor& x) {
  if (x.dtype() == kString) {
    const std::vector<std::string>& texts = strings(x);
    return group_equal(std::span<const std::string_view>(
        std::vector<std::string_view>(texts.begin(), texts.end())));
  }
  const auto count = static_cast<size_t>(aten(x).numel());
  if (is_floating(x.dtype())) {
    const at::Tensor keys = aten(x).to(at::kDouble).contiguous();
    return group_equal(std::span<const double>(keys.data_ptr<double>(), count));
  }
  const at::Tensor keys = aten(x).to(at::kLong).contiguous();
  return group_equal(std::span<const int64_t>(keys.data_ptr<int64_t>(), count));
}

at::Tensor to_tensor(const std::vector<int64_t>& numbers) {
  at::Tensor result = at::empty({static_cast<int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), result.data_ptr<int64_t>());
  return result;
}

}  // namespace

extern constexpr OpDef kUnique{
    .name = "Unique",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape some{Shape::kUnknownDim};
      return {{inputs.dtype(0), some}, {kInt64, inputs.shape(0)}, {kInt64, some}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const Groups groups = groups_of(x);
          const at::Tensor flat = movable(x).reshape({-1});
          k.outputs[0] = from_moved(x, flat.index_select(0, to_tensor(groups.firsts)));
          set(k, to_tensor(groups.inverse).view(sizes(body(x).shape)), 1);
          set(k, to_tensor(groups.counts), 2);
        },
    .gradient = nullptr,
    .no_gradient_because = "which elements are equal changes by jumps",
};

}  // namespace internal

Unique unique(const Tensor& x, Site site) {
  const std::vector<Tensor> outputs = internal::apply_many(internal::kUnique, {&x, 1}, {}, site);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace cohort
