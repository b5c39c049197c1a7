#include "data/padding.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class PaddedBatchNode : public NodeOf<PaddedBatchNode> {
 public:
  std::string_view kind() const override { return "PaddedBatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    return number_of_batches(input().cardinality(), size, drop_remainder);
  }
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> before = input().spec();
    if (!before) return std::nullopt;
    std::vector<TensorSpec> tensors = before->tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int rank = tensors[i].shape.rank();
      if (!padding.shapes.empty() && i < padding.shapes.size()) {
        tensors[i].shape = padding.shapes[i];
      } else if (rank >= 0) {
        tensors[i].shape = Shape(std::vector<int64_t>(static_cast<size_t>(rank), -1));
      }
    }
    return batched(ElementSpec(*before, std::move(tensors)),
                   drop_remainder ? size : Shape::kUnknownDim);
  }
  int64_t batch_size() const override { return size; }
  void check() const override {
    check_at_least("PaddedBatch", "size", size, 1);
    check_padding("PaddedBatch", padding);
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("shapes", padding.shapes);
    fields.field("padding", padding.values);
    fields.field("drop_remainder", drop_remainder);
  }
  std::string details() const override { return fmt::format("({})", size); }

  int64_t size = 1;
  Padding padding;
  bool drop_remainder = false;
};

class PaddedBatchCursor : public StageCursor {
 public:
  PaddedBatchCursor(const PaddedBatchNode& node, const Context& context)
      : StageCursor(node, context), batch_(node) {}

  bool next(Element& out) override {
    while (static_cast<int64_t>(pending_.size()) < batch_.size && !ended_) {
      check_running(context_);
      Element element;
      ended_ = !input_->next(element);
      if (!ended_) pending_.push_back(std::move(element));
    }
    const bool full = static_cast<int64_t>(pending_.size()) == batch_.size;
    if (pending_.empty() || (!full && batch_.drop_remainder)) return false;
    const std::vector<Element> elements = std::exchange(pending_, {});
    out = in_stage("PaddedBatch", index_++,
                   [&] { return pad_elements("PaddedBatch", elements, batch_.padding); });
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("PaddedBatch");
    state.integer(index_);
    state.flag(ended_);
    state.integer(static_cast<int64_t>(pending_.size()));
    for (const Element& element : pending_) state.element(element);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("PaddedBatch");
    index_ = state.integer();
    ended_ = state.flag();
    const int64_t count = state.integer(0, batch_.size);
    for (int64_t i = 0; i < count; ++i) pending_.push_back(state.element());
    input_->restore(state);
  }

 private:
  const PaddedBatchNode& batch_;
  std::vector<Element> pending_;
  int64_t index_ = 0;
  bool ended_ = false;
};

CursorPtr PaddedBatchNode::open(const Context& context) const {
  return std::make_unique<PaddedBatchCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_padded_batch() { return std::make_shared<PaddedBatchNode>(); }

}  // namespace internal

Dataset Dataset::padded_batch(int64_t size, const PaddedBatchOptions& options) const {
  auto node = internal::stage_on<internal::PaddedBatchNode>(node_);
  node->size = size;
  node->padding = {options.shapes, options.padding};
  node->drop_remainder = options.drop_remainder;
  return internal::finish(node);
}

}  // namespace cohort::data
