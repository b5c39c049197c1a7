#include "data/common_description.h"

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "data/batch_rows.h"
#include "data/node.h"

namespace cohort::data::internal {
namespace {

bool drew(const Node& node) { return node.seed && node.seed->drawn; }

// The stages of a pipeline, and whether their elements are divided later.
class Stages {
 public:
  explicit Stages(const Dataset& dataset) : all_(all_stages(DatasetAccess::node(dataset))) {
    for (auto stage = all_.rbegin(); stage != all_.rend(); ++stage) {
      if (!(*stage)->divides() && !is_divided(**stage)) continue;
      for (const NodePtr& input : (*stage)->inputs) divided_.insert(input.get());
    }
  }

  const std::vector<NodePtr>& all() const { return all_; }
  bool is_divided(const Node& stage) const { return divided_.contains(&stage); }
  bool has_common_seed(const Node& stage) const {
    return drew(stage) && (is_divided(stage) || stage.role() == NodeRole::Expand);
  }

 private:
  std::vector<NodePtr> all_;
  std::unordered_set<const Node*> divided_;
};

// Returns a dataset in which the stages for which `is_new` is true, and all stages after them, are
// copies. `change` may change each copy.
Dataset copied(const std::vector<NodePtr>& stages, const std::function<bool(const Node&)>& is_new,
               const std::function<void(const Node&, Node&)>& change) {
  std::unordered_map<const Node*, NodePtr> made;
  for (const NodePtr& node : stages) {
    std::vector<NodePtr> inputs;
    for (const NodePtr& input : node->inputs) inputs.push_back(made.at(input.get()));
    NodePtr& result = made[node.get()] = node;
    if (!is_new(*node) && inputs == node->inputs) continue;
    const std::shared_ptr<Node> copy = node->clone();
    copy->inputs = std::move(inputs);
    change(*node, *copy);
    result = copy;
  }
  return DatasetAccess::make(made.at(stages.back().get()));
}

// The caches before a division and after a stage with a seed, and the stages before each.
std::vector<std::pair<const Node*, std::string>> find_common_caches(const Dataset& pipeline) {
  const Stages stages(pipeline);
  std::vector<std::pair<const Node*, std::string>> found;
  for (const NodePtr& node : stages.all()) {
    if (!node->caches() || !stages.is_divided(*node)) continue;
    bool seeded = false;
    std::string before;
    for (const NodePtr& stage : all_stages(node)) {
      seeded = seeded || stage->seed.has_value();
      before += fmt::format("{} ", stage->kind());
    }
    if (seeded) found.emplace_back(node.get(), std::move(before));
  }
  return found;
}

class FieldTexts : public Fields {
 public:
  using Fields::field;
  void field(std::string_view name, int64_t& value) override {
    if (name != "parallel" && name != "threads" && name != "depth") add(name, value);
  }
  void field(std::string_view name, double& value) override { add(name, value); }
  void field(std::string_view, std::string&) override {}  // names of files and stages
  void field(std::string_view name, Element& value) override {
    constexpr int64_t kFew = 16;  // sizes and weights, not data
    add(name, ElementSpec(value).to_string());
    for (const Tensor& tensor : tensors_of(value)) {
      if (!is_numeric(tensor.dtype())) continue;
      text += tensor.size() <= kFew
                  ? fmt::format(" {}", tensor.to_string())
                  : fmt::format(" of checksum {:08x}", crc32c(as_text(raw_bytes(tensor))));
    }
  }
  void field(std::string_view, Function&) override {}
  void field(std::string_view, DatasetFunction&) override {}
  void field(std::string_view, GeneratorFunction&) override {}

  std::string text;

 private:
  template <typename T>
  void add(std::string_view name, const T& value) {
    text += fmt::format(" {}={}", name, value);
  }
};

}  // namespace

std::vector<uint64_t> common_seeds(const Dataset& pipeline) {
  const Stages stages(pipeline);
  std::vector<uint64_t> seeds;
  for (const NodePtr& node : stages.all()) {
    if (stages.has_common_seed(*node)) seeds.push_back(node->seed->value);
  }
  return seeds;
}

Dataset with_common_seeds(const Dataset& pipeline, std::span<const uint64_t> seeds) {
  const Stages stages(pipeline);
  const bool fit = seeds.size() == common_seeds(pipeline).size();
  size_t next = 0;
  return copied(
      stages.all(), [](const Node& node) { return node.seed.has_value(); },
      [&](const Node& node, Node& copy) {
        if (fit && stages.has_common_seed(node)) copy.seed->value = seeds[next++];
      });
}

Dataset with_drawn_seeds(const Dataset& dataset, Random seeds) {
  return copied(all_stages(DatasetAccess::node(dataset)), drew, [&](const Node& node, Node& copy) {
    if (drew(node)) copy.seed->value = seeds.next();
  });
}

std::vector<CommonCache> common_caches(const Dataset& pipeline) {
  std::vector<CommonCache> caches;
  for (const auto& [cache, stages] : find_common_caches(pipeline)) {
    caches.push_back({stages, cache->stored_start()});
  }
  return caches;
}

CachedPasses cached_passes(const Dataset& pipeline, const std::vector<CommonCache>& caches) {
  const auto own = find_common_caches(pipeline);
  CachedPasses passes;
  if (own.size() != caches.size()) return passes;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].second == caches[i].stages) passes[own[i].first] = caches[i].start;
  }
  return passes;
}

std::vector<std::string> describe_stages(const Dataset& dataset) {
  std::unordered_map<const Node*, size_t> places;
  std::vector<std::string> texts;
  for (const NodePtr& node : all_stages(DatasetAccess::node(dataset))) {
    const std::shared_ptr<Node> copy = node->clone();
    if (drew(*node)) copy->seed->value = 0;
    FieldTexts fields;
    copy->fields(fields);
    for (const NodePtr& input : node->inputs) {
      fields.text += fmt::format(" of stage {}", places.at(input.get()));
    }
    places.emplace(node.get(), texts.size());
    texts.push_back(std::string(node->kind()) + fields.text);
  }
  return texts;
}

}  // namespace cohort::data::internal
