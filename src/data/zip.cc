#include <algorithm>

#include "data/many_inputs.h"

namespace cohort::data {
namespace internal {
namespace {

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

}  // namespace

std::shared_ptr<Node> make_zip() { return std::make_shared<ZipNode>(); }

}  // namespace internal

Dataset zip(std::vector<Dataset> datasets) {
  auto node = std::make_shared<internal::ZipNode>();
  node->inputs = internal::nodes_of(datasets);
  return internal::finish(node);
}

}  // namespace cohort::data
