#include "data/many_inputs.h"

namespace cohort::data {
namespace internal {
namespace {

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

}  // namespace

std::shared_ptr<Node> make_concatenate() { return std::make_shared<ConcatenateNode>(); }

}  // namespace internal

Dataset concatenate(std::vector<Dataset> datasets) {
  auto node = std::make_shared<internal::ConcatenateNode>();
  node->inputs = internal::nodes_of(datasets);
  return internal::finish(node);
}

Dataset Dataset::concatenate(const Dataset& other) const {
  return data::concatenate({*this, other});
}

}  // namespace cohort::data
