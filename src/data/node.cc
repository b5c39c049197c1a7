#include "data/node.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "ops/op.h"

namespace cohort::data::internal {

Block Cursor::next_block(int64_t most) {
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(std::min<int64_t>(most, 4096)));
  while (static_cast<int64_t>(indices.size()) < most) {
    const int64_t row = next_row();
    if (row < 0) break;
    indices.push_back(row);
  }
  if (indices.empty()) return {};
  return {static_cast<int64_t>(indices.size()), table()->rows(indices)};
}

void add_options(const DatasetOptions& later, DatasetOptions& all) {
  if (later.auto_shard_policy) all.auto_shard_policy = later.auto_shard_policy;
  if (later.deterministic) all.deterministic = later.deterministic;
  if (later.threads) all.threads = later.threads;
}

DatasetOptions Node::options() const {
  DatasetOptions all;
  for (const NodePtr& input : inputs) add_options(input->options(), all);
  return all;
}

namespace {

void add_stages(const NodePtr& node, std::unordered_set<const Node*>& seen,
                std::vector<NodePtr>& all) {
  if (!seen.insert(node.get()).second) return;
  for (const NodePtr& input : node->inputs) add_stages(input, seen, all);
  all.push_back(node);
}

}  // namespace

std::vector<NodePtr> all_stages(const NodePtr& last) {
  std::unordered_set<const Node*> seen;
  std::vector<NodePtr> all;
  add_stages(last, seen, all);
  return all;
}

Code code_in_stage(const Status& failure) {
  return failure.code == Code::OutOfRange ? Code::InvalidArgument : failure.code;
}

void raise_in_stage(std::string_view stage, int64_t index, const Status& failure) {
  // Functions that stages share begin their errors with the stage, too. The stage of a dataset that
  // the function of this stage reads stays.
  const std::string tag = fmt::format("[{}] ", stage);
  std::string_view message = failure.message;
  if (message.starts_with(tag) && !message.starts_with(tag + "element ")) {
    message.remove_prefix(tag.size());
  }
  Status status{.code = code_in_stage(failure),
                .message = fmt::format("{}element {}: {}", tag, index, message)};
  status.origin = failure.origin;
  status.cause = failure.cause;
  throw Error(std::move(status));
}

void check_running(const Context& context) {
  if (context.stop.stop_requested()) {
    raise(Code::Cancelled, "[Iterator] the iterator was destroyed while elements were being made");
  }
}

// Less common types are converted to the types that every implementation has.

void Fields::field(std::string_view name, bool& value) {
  int64_t number = value ? 1 : 0;
  field(name, number);
  value = number != 0;
}

void Fields::field(std::string_view name, int& value) {
  int64_t number = value;
  field(name, number);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
    raise(Code::InvalidArgument, "[Dataset] the value {} of '{}' is out of range", number, name);
  }
  value = static_cast<int>(number);
}

void Fields::field(std::string_view name, IntOrAutotune& value) {
  constexpr int kAutotuned = -1;
  int number = value.number().value_or(kAutotuned);
  field(name, number);
  value = number == kAutotuned ? kAutotune : IntOrAutotune(number);
}

void Fields::field(std::string_view name, uint64_t& value) {
  auto number = static_cast<int64_t>(value);
  field(name, number);
  value = static_cast<uint64_t>(number);
}

void Fields::field(std::string_view name, Seed& value) {
  field(name, value.value);
  field(fmt::format("{}_drawn", name), value.drawn);
}

void Fields::field(std::string_view name, std::optional<bool>& value) {
  int64_t number = value ? (*value ? 1 : 0) : -1;
  field(name, number);
  value = number < 0 ? std::nullopt : std::optional(number != 0);
}

void Fields::field(std::string_view name, std::optional<ElementSpec>& value) {
  std::string structure = value ? to_string(*structure_of(*value)) : "";  // empty: no spec
  std::vector<int64_t> packed = value ? packed_tensors(*value) : std::vector<int64_t>();
  field(fmt::format("{}_structure", name), structure);
  field(fmt::format("{}_tensors", name), packed);
  value.reset();
  if (structure.empty()) return;
  std::vector<TensorSpec> tensors;
  for (const auto& [dtype, shape] : cohort::internal::unpack_specs("Dataset", packed)) {
    tensors.push_back({dtype, shape});
  }
  value = make_spec(parse_structure(structure), std::move(tensors));
}

void Fields::field(std::string_view name, std::vector<Tensor>& value) {
  Element list = Element::tuple(value);
  field(name, list);
  value = list.tensors();
}

void Fields::field(std::string_view name, std::vector<Shape>& value) {
  std::vector<Tensor> sizes;
  for (const Shape& shape : value) sizes.push_back(Tensor::from(shape.to_vector()));
  field(name, sizes);
  value.clear();
  for (const Tensor& shape : sizes) value.emplace_back(shape.to_vector<int64_t>());
}

}  // namespace cohort::data::internal
