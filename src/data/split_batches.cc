// Cuts each batch by itself, into a number of parts.

#include <algorithm>

#include "data/rows.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class SplitNode : public NodeOf<SplitNode> {
 public:
  std::string_view kind() const override { return "SplitBatches"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t batches = input().cardinality();
    return batches < 0 ? batches : batches * parts;
  }
  std::optional<ElementSpec> spec() const override {
    std::optional<ElementSpec> before = input().spec();
    if (!before) return std::nullopt;
    std::vector<TensorSpec> tensors = before->tensors();
    for (TensorSpec& tensor : tensors) {
      if (tensor.shape.rank() < 1) continue;
      const int64_t rows = tensor.shape[0];
      const bool even = rows >= 0 && rows % parts == 0;
      tensor.shape = tensor.shape.with(0, even ? rows / parts : Shape::kUnknownDim);
    }
    return ElementSpec(*before, std::move(tensors));
  }
  void check() const override {
    check_at_least("SplitBatches", "number of parts", parts, 1);
    check_has_rows("SplitBatches", input().spec());
  }
  void fields(Fields& fields) override { fields.field("parts", parts); }
  std::string details() const override { return fmt::format("({})", parts); }

  int64_t parts = 1;
};

class SplitCursor : public StageCursor {
 public:
  SplitCursor(const SplitNode& node, const Context& context)
      : StageCursor(node, context), parts_(node.parts), at_(node.parts) {}

  bool next(Element& out) override {
    check_running(context_);
    if (at_ == parts_) {
      if (!input_->next(batch_)) return false;
      in_stage("SplitBatches", index_++, [&] { check_batch(); });
      at_ = 0;
    }
    std::vector<Tensor> cut;
    for (const Tensor& tensor : tensors_of(batch_)) cut.push_back(part_of(tensor));
    out = ElementAccess::make(structure_of(batch_), std::move(cut));
    ++at_;
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("SplitBatches");
    state.integer(index_);
    state.integer(at_);
    if (at_ < parts_) state.element(batch_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("SplitBatches");
    index_ = state.integer();
    at_ = state.integer(0, parts_);
    if (at_ < parts_) batch_ = state.element();
    if (at_ < parts_) check_batch();
    input_->restore(state);
  }

 private:
  void check_batch() const {
    for (const Tensor& tensor : tensors_of(batch_)) {
      if (tensor.rank() > 0) continue;
      raise(Code::InvalidArgument,
            "needs batches, but a part of the element is a scalar; call batch() before");
    }
  }

  // Each part of the element is cut by its own number of rows.
  Tensor part_of(const Tensor& tensor) const {
    const int64_t rows = tensor.shape()[0];
    const int64_t each = rows / parts_ + (rows % parts_ != 0 ? 1 : 0);
    const int64_t begin = std::min(rows, at_ * each);
    return rows_of(tensor, begin, std::min(rows, begin + each));
  }

  const int64_t parts_;
  Element batch_;
  int64_t at_;
  int64_t index_ = 0;
};

CursorPtr SplitNode::open(const Context& context) const {
  return std::make_unique<SplitCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_split_batches() { return std::make_shared<SplitNode>(); }

}  // namespace internal

Dataset Dataset::split_batches(int64_t parts) const {
  auto node = internal::stage_on<internal::SplitNode>(node_);
  node->parts = parts;
  return internal::finish(node);
}

}  // namespace cohort::data
