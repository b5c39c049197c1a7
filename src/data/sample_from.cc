#include <algorithm>
#include <numeric>

#include "data/many_inputs.h"

namespace cohort::data {
namespace internal {
namespace {

class SampleNode : public NodeOf<SampleNode> {
 public:
  SampleNode() { seed.emplace(); }
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
    fields.field("seed", *seed);
    fields.field("stop_on_empty", stop_on_empty);
  }

  std::vector<double> weights;
  bool stop_on_empty = false;
};

class SampleCursor : public ManyCursor {
 public:
  SampleCursor(const SampleNode& node, const Context& context)
      : ManyCursor(node, context),
        sample_(node),
        weights_(node.weights),
        random_(node.seed->value) {}

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

}  // namespace

std::shared_ptr<Node> make_sample_from() { return std::make_shared<SampleNode>(); }

}  // namespace internal

Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options) {
  auto node = std::make_shared<internal::SampleNode>();
  node->inputs = internal::nodes_of(datasets);
  node->weights =
      options.weights.empty() ? std::vector<double>(datasets.size(), 1.0) : options.weights;
  node->seed = internal::seed_or_drawn(options.seed);
  node->stop_on_empty = options.stop_on_empty_dataset;
  return internal::finish(node);
}

}  // namespace cohort::data
