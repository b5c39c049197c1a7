#include "data/batch_size.h"

#include <algorithm>

#include "data/node.h"

namespace cohort::data::internal {
namespace {

// The first sizes of the tensors of that spec; nullopt unless all are known.
std::optional<std::vector<int64_t>> first_sizes(const ElementSpec& spec) {
  std::vector<int64_t> sizes;
  for (const TensorSpec& tensor : spec.tensors()) {
    if (tensor.shape.rank() < 1 || tensor.shape[0] < 0) return std::nullopt;
    sizes.push_back(tensor.shape[0]);
  }
  if (sizes.empty()) return std::nullopt;
  return sizes;
}

int64_t common_size(const std::vector<int64_t>& sizes) {
  const bool equal = std::ranges::all_of(sizes, [&](int64_t size) { return size == sizes[0]; });
  return equal ? sizes[0] : kUnknownBatchSize;
}

// What the stages say, from the end to the one that makes the batches.
int64_t size_by_stages(const Node& node) {
  if (node.batch_size() >= 0) return node.batch_size();
  if (node.role() == NodeRole::PassThrough) return size_by_stages(node.input());
  if (node.role() != NodeRole::Join) return kUnknownBatchSize;
  std::vector<int64_t> sizes;
  for (const NodePtr& input : node.inputs) sizes.push_back(size_by_stages(*input));
  return common_size(sizes);
}

}  // namespace

int64_t batch_size_of(const Dataset& dataset) {
  if (const std::optional<ElementSpec> spec = dataset.element_spec()) {
    if (const auto sizes = first_sizes(*spec)) return common_size(*sizes);
  }
  return size_by_stages(*DatasetAccess::node(dataset));
}

void check_batched(std::string_view operation, const Dataset& dataset) {
  const std::optional<ElementSpec> spec = dataset.element_spec();
  if (!spec) return;
  for (const TensorSpec& tensor : spec->tensors()) {
    if (tensor.shape.rank() != 0) continue;
    raise(Code::InvalidArgument,
          "[{}] the elements are to be divided among replicas, so they must be batches, but they "
          "are {}; call batch() with the global batch size before",
          operation, spec->to_string());
  }
}

}  // namespace cohort::data::internal
