#include "data/common_description.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "data/fields.h"

namespace cohort::data::internal {
namespace {

// The stages, each once, after its inputs.
class Stages {
 public:
  explicit Stages(const Dataset& dataset) { add(DatasetAccess::node(dataset)); }

  const std::vector<NodePtr>& all() const { return all_; }
  size_t place(const NodePtr& node) const { return places_.at(node.get()); }

 private:
  void add(const NodePtr& node) {
    if (places_.contains(node.get())) return;
    for (const NodePtr& input : node->inputs) add(input);
    places_.emplace(node.get(), all_.size());
    all_.push_back(node);
  }

  std::vector<NodePtr> all_;
  std::unordered_map<const Node*, size_t> places_;
};

bool drew(const Node& node) { return node.seed && node.seed->drawn; }

// A dataset in which each stage that `is_new` says, and all that comes after it, is a copy with
// what `next_seed` gives in place of a drawn seed.
Dataset copied(const Dataset& dataset, const std::function<bool(const Node&)>& is_new,
               const std::function<uint64_t()>& next_seed) {
  const Stages stages(dataset);
  std::vector<NodePtr> made;
  for (const NodePtr& node : stages.all()) {
    std::vector<NodePtr> inputs;
    for (const NodePtr& input : node->inputs) inputs.push_back(made[stages.place(input)]);
    if (!is_new(*node) && inputs == node->inputs) {
      made.push_back(node);
      continue;
    }
    const std::shared_ptr<Node> copy = node->clone();
    copy->inputs = std::move(inputs);
    if (drew(*node)) copy->seed->value = next_seed();
    made.push_back(copy);
  }
  return DatasetAccess::make(made.back());
}

class FieldTexts : public Fields {
 public:
  using Fields::field;
  void field(std::string_view name, int64_t& value) override {
    if (name != "parallel" && name != "threads" && name != "depth") add(name, value);
  }
  void field(std::string_view name, double& value) override { add(name, value); }
  void field(std::string_view, std::string&) override {}  // a file, a stage's name
  void field(std::string_view name, Element& value) override {
    constexpr int64_t kFew = 16;  // sizes and weights, not data
    add(name, ElementSpec(value).to_string());
    for (const Tensor& tensor : tensors_of(value)) {
      if (is_numeric(tensor.dtype()) && tensor.size() <= kFew) text += " " + tensor.to_string();
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

std::vector<uint64_t> drawn_seeds(const Dataset& dataset) {
  const Stages stages(dataset);
  std::vector<uint64_t> seeds;
  for (const NodePtr& node : stages.all()) {
    if (drew(*node)) seeds.push_back(node->seed->value);
  }
  return seeds;
}

Dataset with_common_seeds(const Dataset& dataset, std::span<const uint64_t> seeds) {
  size_t next = 0;
  return copied(
      dataset, [](const Node& node) { return node.seed.has_value(); },
      [&] { return seeds[next++]; });
}

Dataset with_drawn_seeds(const Dataset& dataset, Random seeds) {
  return copied(dataset, drew, [&] { return seeds.next(); });
}

std::vector<std::string> describe_stages(const Dataset& dataset) {
  const Stages stages(dataset);
  std::vector<std::string> texts;
  for (const NodePtr& node : stages.all()) {
    const std::shared_ptr<Node> copy = node->clone();
    if (drew(*node)) copy->seed->value = 0;
    FieldTexts fields;
    copy->fields(fields);
    for (const NodePtr& input : node->inputs) {
      fields.text += fmt::format(" of stage {}", stages.place(input));
    }
    texts.push_back(std::string(node->kind()) + fields.text);
  }
  return texts;
}

}  // namespace cohort::data::internal
