#include <algorithm>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class TakeNode : public PassThroughNode<TakeNode> {
 public:
  std::string_view kind() const override { return "Take"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (all == kInfinite || count == 0) return count;
    return all < 0 ? all : std::min(all, count);
  }
  void check() const override { check_at_least("Take", "count", count, 0); }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return fmt::format("({})", count); }

  int64_t count = 0;
};

class TakeCursor : public SelectingCursor {
 public:
  TakeCursor(const TakeNode& node, const Context& context)
      : SelectingCursor(node, context), left_(node.count) {}

  bool next(Element& out) override {
    return take([&] { return input_->next(out); });
  }
  int64_t next_row() override {
    int64_t row = -1;
    take([&] { return (row = input_->next_row()) >= 0; });
    return row;
  }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    if (left_ == 0) return {};
    Block block = input_->next_block(std::min(most, left_));
    left_ -= block.count;
    return block;
  }
  void save(StateWriter& state) override {
    state.stage("Take");
    state.integer(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Take");
    left_ = state.integer(0, left_);
    input_->restore(state);
  }

 private:
  // An element that fails counts as taken.
  template <typename Next>
  bool take(const Next& next) {
    if (left_ == 0) return false;
    --left_;
    const bool found = next();
    if (!found) left_ = 0;
    return found;
  }

  int64_t left_;
};

CursorPtr TakeNode::open(const Context& context) const {
  return std::make_unique<TakeCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_take() { return std::make_shared<TakeNode>(); }

}  // namespace internal

Dataset Dataset::take(int64_t count) const {
  auto node = internal::stage_on<internal::TakeNode>(node_);
  node->count = count;
  return internal::finish(node);
}

}  // namespace cohort::data
