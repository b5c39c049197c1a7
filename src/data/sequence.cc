// The dataset that an element of window() is: tensors in memory, of any shapes.

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class SequenceNode : public NodeOf<SequenceNode> {
 public:
  std::string_view kind() const override { return "Sequence"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return static_cast<int64_t>(tensors().size()); }
  std::optional<ElementSpec> spec() const override {
    std::optional<ElementSpec> all;
    for (const Tensor& tensor : tensors()) {
      const ElementSpec one(TensorSpec{tensor.dtype(), tensor.shape()});
      all = all ? common(all, one) : one;
      if (!all) break;
    }
    return all;
  }
  NodeRole role() const override { return NodeRole::Source; }
  void check() const override {
    if (elements.is_dataset()) return;
    raise(Code::InvalidArgument, "[Element] a dataset was asked for, but the element is {}",
          to_string(*structure_of(elements)));
  }
  void fields(Fields& fields) override { fields.field("elements", elements); }
  const std::vector<Tensor>& tensors() const { return tensors_of(elements); }

  Element elements;
};

class SequenceCursor : public Cursor {
 public:
  explicit SequenceCursor(const SequenceNode& node) : node_(node) {}

  bool next(Element& out) override {
    if (at_ == node_.cardinality()) return false;
    out = Element(node_.tensors()[static_cast<size_t>(at_++)]);
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("Sequence");
    state.integer(at_);
  }
  void restore(StateReader& state) override {
    state.stage("Sequence");
    at_ = state.integer(0, node_.cardinality());
  }

 private:
  const SequenceNode& node_;
  int64_t at_ = 0;
};

CursorPtr SequenceNode::open(const Context&) const {
  return std::make_unique<SequenceCursor>(*this);
}

}  // namespace

std::shared_ptr<Node> make_sequence() { return std::make_shared<SequenceNode>(); }

}  // namespace internal

Dataset Element::dataset() const {
  auto node = std::make_shared<internal::SequenceNode>();
  node->elements = *this;
  return internal::finish(node);
}

Element::operator Dataset() const { return dataset(); }

}  // namespace cohort::data
