#include "data/rows.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class UnbatchNode : public NodeOf<UnbatchNode> {
 public:
  std::string_view kind() const override { return "Unbatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t batches = input().cardinality();
    const std::optional<ElementSpec> batch = input().spec();
    if (batches <= 0 || !batch || batch->tensors().empty()) {
      return batches > 0 ? kUnknownCardinality : batches;
    }
    const Shape shape = batch->tensors()[0].shape;
    if (shape.rank() < 1 || shape[0] < 0) return kUnknownCardinality;
    return batches * shape[0];
  }
  std::optional<ElementSpec> spec() const override { return unbatched(input().spec()); }
  void check() const override { check_has_rows("Unbatch", input().spec()); }
  void fields(Fields&) override {}
};

class UnbatchCursor : public StageCursor {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    if (!ready()) return false;
    std::vector<Tensor> parts;
    for (const Tensor& tensor : tensors_of(batch_)) parts.push_back(row_of(tensor, at_));
    out = ElementAccess::make(structure_of(batch_), std::move(parts));
    ++at_;
    return true;
  }
  bool has_blocks() const override { return true; }
  Block next_block(int64_t most) override {
    if (!ready()) return {};
    const int64_t end = std::min(rows_, at_ + most);
    Block block{end - at_, batch_slice(batch_, at_, end)};
    at_ = end;
    return block;
  }
  void save(StateWriter& state) override {
    state.stage("Unbatch");
    state.integer(rows_ - at_);
    if (at_ < rows_) state.element(batch_slice(batch_, at_, rows_));
    state.integer(index_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Unbatch");
    rows_ = state.integer(0, INT64_MAX);
    if (rows_ > 0) batch_ = state.element();
    if (rows_ > 0 && batch_rows("Restore", batch_) != rows_) raise_bad_state("rows are missing");
    index_ = state.integer();
    input_->restore(state);
  }

 private:
  // Whether there is a row, after reading the next batch if need be.
  bool ready() {
    while (at_ == rows_) {
      check_running(context_);
      at_ = rows_ = 0;
      if (!input_->next(batch_)) return false;
      rows_ = in_stage("Unbatch", index_++, [&] { return batch_rows("Unbatch", batch_); });
      batch_ = in_row_order(batch_);
    }
    return true;
  }

  Element batch_;
  int64_t at_ = 0;
  int64_t rows_ = 0;
  int64_t index_ = 0;
};

CursorPtr UnbatchNode::open(const Context& context) const {
  return std::make_unique<UnbatchCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_unbatch() { return std::make_shared<UnbatchNode>(); }

}  // namespace internal

Dataset Dataset::unbatch() const {
  return internal::finish(internal::stage_on<internal::UnbatchNode>(node_));
}

}  // namespace cohort::data
