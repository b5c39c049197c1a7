// Several datasets as one: zip, concatenate, sample_from.

#include <algorithm>
#include <numeric>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

void check_inputs(std::string_view stage, const Node& node) {
  if (node.inputs.empty()) raise(Code::InvalidArgument, "[{}] needs at least one dataset", stage);
}

class ManyCursor : public Cursor {
 public:
  ManyCursor(const Node& node, const Context& context) : node_(node), context_(context) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back(node.inputs[i]->open(context.for_input(i)));
    }
  }

 protected:
  void save_inputs(StateWriter& state) {
    for (const CursorPtr& input : inputs_) input->save(state);
  }
  void restore_inputs(StateReader& state) {
    for (const CursorPtr& input : inputs_) input->restore(state);
  }

  const Node& node_;
  const Context context_;
  std::vector<CursorPtr> inputs_;
};

class ZipCursor : public ManyCursor {
 public:
  using ManyCursor::ManyCursor;

  // An input that fails does not put the others out of step: each gives one element per call.
  bool next(Element& out) override {
    if (ended_) return false;
    std::vector<Element> parts(inputs_.size());
    Status failure;
    for (size_t i = 0; i < inputs_.size() && !ended_; ++i) {
      const Status status = capture_status([&] { ended_ = !inputs_[i]->next(parts[i]); });
      if (failure.ok()) failure = status;
    }
    throw_if_error(failure);
    if (ended_) return false;
    out = Element::tuple(std::move(parts));
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("Zip");
    state.flag(ended_);
    save_inputs(state);
  }
  void restore(StateReader& state) override {
    state.stage("Zip");
    ended_ = state.flag();
    restore_inputs(state);
  }

 private:
  bool ended_ = false;
};

class ZipNode : public NodeOf<ZipNode> {
 public:
  std::string_view kind() const override { return "Zip"; }
  CursorPtr open(const Context& context) const override {
    return std::make_unique<ZipCursor>(*this, context);
  }
  int64_t cardinality() const override {
    int64_t least = kInfinite;
    bool unknown = false;
    for (const NodePtr& input : inputs) {
      const int64_t count = input->cardinality();
      if (count == 0) return 0;
      if (count == kUnknownCardinality) unknown = true;
      if (count >= 0) least = least < 0 ? count : std::min(least, count);
    }
    return unknown ? kUnknownCardinality : least;
  }
  std::optional<ElementSpec> spec() const override {
    std::vector<StructurePtr> structures;
    std::vector<TensorSpec> tensors;
    for (const NodePtr& input : inputs) {
      const std::optional<ElementSpec> part = input->spec();
      if (!part) return std::nullopt;
      structures.push_back(part->structure());
      for (const TensorSpec& tensor : part->tensors()) tensors.push_back(tensor);
    }
    return ElementSpec(tuple_structure(std::move(structures)), std::move(tensors));
  }
  NodeRole role() const override { return NodeRole::Join; }
  void check() const override { check_inputs("Zip", *this); }
  void fields(Fields&) override {}
};

class ConcatenateCursor : public ManyCursor {
 public:
  using ManyCursor::ManyCursor;

  bool next(Element& out) override {
    for (; at_ < inputs_.size(); ++at_) {
      check_running(context_);
      if (inputs_[at_]->next(out)) return true;
    }
    return false;
  }
  void save(StateWriter& state) override {
    state.stage("Concatenate");
    state.integer(static_cast<int64_t>(at_));
    save_inputs(state);
  }
  void restore(StateReader& state) override {
    state.stage("Concatenate");
    at_ = static_cast<size_t>(state.integer(0, static_cast<int64_t>(inputs_.size())));
    restore_inputs(state);
  }

 private:
  size_t at_ = 0;
};

int64_t sum_of_cardinalities(const Node& node) {
  int64_t sum = 0;
  bool unknown = false;
  for (const NodePtr& input : node.inputs) {
    const int64_t count = input->cardinality();
    if (count == kInfinite) return kInfinite;
    if (count == kUnknownCardinality) unknown = true;
    if (count > 0 && __builtin_add_overflow(sum, count, &sum)) sum = INT64_MAX;
  }
  return unknown ? kUnknownCardinality : sum;
}

std::optional<ElementSpec> common_spec(const Node& node) {
  std::optional<ElementSpec> all = node.input().spec();
  for (const NodePtr& input : node.inputs) all = common(all, input->spec());
  return all;
}

class ConcatenateNode : public NodeOf<ConcatenateNode> {
 public:
  std::string_view kind() const override { return "Concatenate"; }
  CursorPtr open(const Context& context) const override {
    return std::make_unique<ConcatenateCursor>(*this, context);
  }
  int64_t cardinality() const override { return sum_of_cardinalities(*this); }
  std::optional<ElementSpec> spec() const override { return common_spec(*this); }
  NodeRole role() const override { return NodeRole::Join; }
  void check() const override { check_inputs("Concatenate", *this); }
  void fields(Fields&) override {}
};

class SampleNode : public NodeOf<SampleNode> {
 public:
  std::string_view kind() const override { return "SampleFrom"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t sum = sum_of_cardinalities(*this);
    return stop_on_empty && sum != 0 ? kUnknownCardinality : sum;
  }
  std::optional<ElementSpec> spec() const override { return common_spec(*this); }
  void check() const override {
    check_inputs("SampleFrom", *this);
    if (weights.size() != inputs.size()) {
      raise(Code::InvalidArgument, "[SampleFrom] {} weights for {} datasets", weights.size(),
            inputs.size());
    }
    for (const double weight : weights) {
      if (weight >= 0 && weight <= 1e300) continue;
      raise(Code::InvalidArgument, "[SampleFrom] a weight must be at least 0 and finite, got {}",
            weight);
    }
    if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
      raise(Code::InvalidArgument, "[SampleFrom] all weights are 0");
    }
  }
  void fields(Fields& fields) override {
    fields.field("weights", weights);
    fields.field("seed", seed);
    fields.field("stop_on_empty", stop_on_empty);
  }

  std::vector<double> weights;
  uint64_t seed = 0;
  bool stop_on_empty = false;
};

class SampleCursor : public ManyCursor {
 public:
  SampleCursor(const SampleNode& node, const Context& context)
      : ManyCursor(node, context), sample_(node), weights_(node.weights), random_(node.seed) {}

  bool next(Element& out) override {
    for (;;) {
      check_running(context_);
      const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
      if (sum <= 0) return false;
      const size_t chosen = choose(random_.uniform() * sum);
      if (inputs_[chosen]->next(out)) return true;
      weights_[chosen] = 0;
      if (sample_.stop_on_empty) std::ranges::fill(weights_, 0);
    }
  }
  void save(StateWriter& state) override {
    state.stage("SampleFrom");
    state.integer(static_cast<int64_t>(random_.state()));
    for (const double weight : weights_) state.flag(weight > 0);
    save_inputs(state);
  }
  void restore(StateReader& state) override {
    state.stage("SampleFrom");
    random_ = Random(static_cast<uint64_t>(state.integer()));
    for (double& weight : weights_) {
      if (!state.flag()) weight = 0;
    }
    restore_inputs(state);
  }

 private:
  size_t choose(double at) const {
    size_t last = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] <= 0) continue;
      last = i;
      if ((at -= weights_[i]) < 0) break;
    }
    return last;
  }

  const SampleNode& sample_;
  std::vector<double> weights_;  // 0 once the dataset has ended
  Random random_;
};

CursorPtr SampleNode::open(const Context& context) const {
  return std::make_unique<SampleCursor>(*this, context);
}

std::vector<NodePtr> nodes_of(const std::vector<Dataset>& datasets) {
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(DatasetAccess::node(dataset));
  return nodes;
}

}  // namespace

std::shared_ptr<Node> make_zip() { return std::make_shared<ZipNode>(); }
std::shared_ptr<Node> make_concatenate() { return std::make_shared<ConcatenateNode>(); }
std::shared_ptr<Node> make_sample_from() { return std::make_shared<SampleNode>(); }

}  // namespace internal

Dataset zip(std::vector<Dataset> datasets) {
  auto node = std::make_shared<internal::ZipNode>();
  node->inputs = internal::nodes_of(datasets);
  return internal::finish(node);
}

Dataset concatenate(std::vector<Dataset> datasets) {
  auto node = std::make_shared<internal::ConcatenateNode>();
  node->inputs = internal::nodes_of(datasets);
  return internal::finish(node);
}

Dataset Dataset::concatenate(const Dataset& other) const {
  return data::concatenate({*this, other});
}

Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options) {
  auto node = std::make_shared<internal::SampleNode>();
  node->inputs = internal::nodes_of(datasets);
  node->weights =
      options.weights.empty() ? std::vector<double>(datasets.size(), 1.0) : options.weights;
  node->seed = options.seed ? *options.seed : internal::random_seed();
  node->stop_on_empty = options.stop_on_empty_dataset;
  return internal::finish(node);
}

}  // namespace cohort::data
