// Stages with several inputs: zip, concatenate and sample_from.

#include <algorithm>
#include <numeric>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

void check_inputs(const Node& node) {
  if (!node.inputs.empty()) return;
  raise(Code::InvalidArgument, "[{}] needs at least one dataset", node.kind());
}

// Number of elements of all inputs together.
Cardinality sum_of_cardinalities(const Node& node) {
  int64_t sum = 0;
  bool unknown = false;
  for (const NodePtr& input : node.inputs) {
    const Cardinality count = input->cardinality();
    if (count == kInfinite) return kInfinite;
    if (count == kUnknownCardinality) {
      unknown = true;
    } else if (__builtin_add_overflow(sum, count.count(), &sum)) {
      sum = INT64_MAX;
    }
  }
  return unknown ? kUnknownCardinality : Cardinality(sum);
}

std::optional<ElementSpec> common_spec(const Node& node) {
  std::optional<ElementSpec> all = node.input().spec();
  for (const NodePtr& input : node.inputs) all = common(all, input->spec());
  return all;
}

std::vector<NodePtr> nodes_of(const std::vector<Dataset>& datasets) {
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(DatasetAccess::node(dataset));
  return nodes;
}

// A cursor of an `N` with several inputs.
template <typename N>
class CombiningCursor : public SourceCursor<N> {
 public:
  CombiningCursor(const N& node, const Context& context)
      : SourceCursor<N>(node, context), context_(context) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back(node.inputs[i]->open(context.for_input(i)));
    }
  }
  void position(PositionFields& fields) final {
    SourceCursor<N>::position(fields);
    for (const CursorPtr& input : inputs_) input->position(fields);
  }

 protected:
  const Context context_;
  std::vector<CursorPtr> inputs_;
};

class ZipNode : public Stage<ZipNode, class ZipCursor> {
 public:
  std::string_view kind() const override { return "Zip"; }
  Cardinality cardinality() const override {
    Cardinality least = kInfinite;
    bool unknown = false;
    for (const NodePtr& input : inputs) {
      const Cardinality count = input->cardinality();
      if (count == 0) return 0;
      if (count == kUnknownCardinality) unknown = true;
      if (count < least) least = count;
    }
    return unknown ? kUnknownCardinality : least;
  }
  std::optional<ElementSpec> spec() const override {
    std::vector<StructurePtr> structures;
    std::vector<TensorSpec> tensors;
    for (const NodePtr& input : inputs) {
      const std::optional<ElementSpec> part = input->spec();
      if (!part) return std::nullopt;
      structures.push_back(structure_of(*part));
      for (const TensorSpec& tensor : part->tensors()) tensors.push_back(tensor);
    }
    return make_spec(tuple_structure(std::move(structures)), std::move(tensors));
  }
  NodeRole role() const override { return NodeRole::Join; }
  void check() const override { check_inputs(*this); }
};

class ZipCursor : public CombiningCursor<ZipNode> {
 public:
  using CombiningCursor::CombiningCursor;

  // Each input gives one element per call, so that a failing input stays in step with the others.
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

 private:
  void local_position(PositionFields& fields) override { fields.flag(ended_); }

  bool ended_ = false;
};

class ConcatenateNode : public Stage<ConcatenateNode, class ConcatenateCursor> {
 public:
  std::string_view kind() const override { return "Concatenate"; }
  Cardinality cardinality() const override { return sum_of_cardinalities(*this); }
  std::optional<ElementSpec> spec() const override { return common_spec(*this); }
  NodeRole role() const override { return NodeRole::Join; }
  void check() const override { check_inputs(*this); }
};

class ConcatenateCursor : public CombiningCursor<ConcatenateNode> {
 public:
  using CombiningCursor::CombiningCursor;

  bool next(Element& out) override {
    for (; at_ < inputs_.size(); ++at_) {
      check_running(context_);
      if (inputs_[at_]->next(out)) return true;
    }
    return false;
  }

 private:
  void local_position(PositionFields& fields) override { fields.index(at_, inputs_.size()); }

  size_t at_ = 0;
};

class SampleNode : public Stage<SampleNode, class SampleCursor> {
 public:
  SampleNode() { seed.emplace(); }
  std::string_view kind() const override { return "SampleFrom"; }
  bool combines() const override { return true; }
  Cardinality cardinality() const override {
    const Cardinality sum = sum_of_cardinalities(*this);
    return stop_on_empty && sum != 0 ? kUnknownCardinality : sum;
  }
  std::optional<ElementSpec> spec() const override { return common_spec(*this); }
  void check() const override {
    check_inputs(*this);
    if (weights.size() != inputs.size()) {
      raise(Code::InvalidArgument,
            "[SampleFrom] needs one weight per dataset, got {} weights for {} datasets",
            weights.size(), inputs.size());
    }
    for (const double weight : weights) {
      if (weight >= 0 && weight <= 1e300) continue;
      raise(Code::InvalidArgument, "[SampleFrom] a weight must be at least 0 and finite, got {}",
            weight);
    }
    if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
      raise(Code::InvalidArgument,
            "[SampleFrom] at least one weight must be positive, but all weights are 0");
    }
  }
  void fields(Fields& fields) override {
    fields.field("weights", weights);
    fields.field("seed", *seed);
    fields.field("stop_on_empty", stop_on_empty);
  }

  std::vector<double> weights;
  bool stop_on_empty = false;
};

class SampleCursor : public CombiningCursor<SampleNode> {
 public:
  using CombiningCursor::CombiningCursor;

  bool next(Element& out) override {
    for (;;) {
      check_running(context_);
      const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
      if (sum <= 0) return false;
      const size_t chosen = choose(random_.uniform() * sum);
      if (inputs_[chosen]->next(out)) return true;
      weights_[chosen] = 0;
      if (node_.stop_on_empty) std::ranges::fill(weights_, 0);
    }
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
  void local_position(PositionFields& fields) override {
    random_.position(fields);
    for (double& weight : weights_) {
      bool open = weight > 0;
      fields.flag(open);
      if (!open) weight = 0;
    }
  }

  std::vector<double> weights_ = node_.weights;  // 0 once the dataset has ended
  Random random_{node_.seed->value};
};

}  // namespace

std::shared_ptr<Node> make_zip() { return std::make_shared<ZipNode>(); }
std::shared_ptr<Node> make_concatenate() { return std::make_shared<ConcatenateNode>(); }
std::shared_ptr<Node> make_sample_from() { return std::make_shared<SampleNode>(); }

}  // namespace internal

Dataset zip(std::vector<Dataset> datasets) {
  return internal::add_stage<internal::ZipNode>(internal::nodes_of(datasets));
}

Dataset concatenate(std::vector<Dataset> datasets) {
  return internal::add_stage<internal::ConcatenateNode>(internal::nodes_of(datasets));
}

Dataset Dataset::concatenate(const Dataset& other) const {
  return data::concatenate({*this, other});
}

Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options) {
  return internal::add_stage<internal::SampleNode>(internal::nodes_of(datasets), [&](auto& node) {
    node.weights =
        options.weights.empty() ? std::vector<double>(datasets.size(), 1.0) : options.weights;
    node.seed = internal::seed_or_drawn(options.seed);
    node.stop_on_empty = options.stop_on_empty_dataset;
  });
}

}  // namespace cohort::data
