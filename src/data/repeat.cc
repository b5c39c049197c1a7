#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class RepeatNode : public PassThroughNode<RepeatNode> {
 public:
  std::string_view kind() const override { return "Repeat"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (count == 0 || all == 0) return 0;
    if (count < 0) return kInfinite;
    if (all < 0) return all;
    int64_t product = 0;
    return __builtin_mul_overflow(all, count, &product) ? INT64_MAX : product;
  }
  void check() const override { check_at_least("Repeat", "count (-1: for ever)", count, -1); }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return count < 0 ? "" : fmt::format("({})", count); }

  int64_t count = -1;
};

class RepeatCursor : public SelectingCursor {
 public:
  RepeatCursor(const RepeatNode& node, const Context& context)
      : SelectingCursor(node, context), count_(node.count) {}

  bool next(Element& out) override {
    return again([&] { return input_->next(out); });
  }
  int64_t next_row() override {
    int64_t row = -1;
    again([&] { return (row = input_->next_row()) >= 0; });
    return row;
  }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    Block block;
    again([&] { return (block = input_->next_block(most)).count > 0; });
    return block;
  }
  void save(StateWriter& state) override {
    state.stage("Repeat");
    state.integer(epoch_);
    state.flag(any_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Repeat");
    epoch_ = state.integer(0, INT64_MAX);
    any_ = state.flag();
    input_->restore(state);
  }

 private:
  template <typename Next>
  bool again(const Next& next) {
    while (count_ < 0 || epoch_ < count_) {
      check_running(context_);
      if (next()) return any_ = true;
      // An epoch without elements: there will never be any.
      if (!any_ && count_ < 0) return false;
      ++epoch_;
      any_ = false;
      if (count_ < 0 || epoch_ < count_) {
        input_.reset();
        input_ = node_.input().open(context_);
      }
    }
    return false;
  }

  int64_t count_;
  int64_t epoch_ = 0;
  bool any_ = false;  // in this epoch
};

CursorPtr RepeatNode::open(const Context& context) const {
  return std::make_unique<RepeatCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_repeat() { return std::make_shared<RepeatNode>(); }

}  // namespace internal

Dataset Dataset::repeat(int64_t count) const {
  auto node = internal::stage_on<internal::RepeatNode>(node_);
  node->count = count;
  return internal::finish(node);
}

}  // namespace cohort::data
