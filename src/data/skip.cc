#include <algorithm>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class SkipNode : public PassThroughNode<SkipNode> {
 public:
  std::string_view kind() const override { return "Skip"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    return all < 0 ? all : std::max<int64_t>(0, all - count);
  }
  void check() const override { check_at_least("Skip", "count", count, 0); }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return fmt::format("({})", count); }

  int64_t count = 0;
};

class SkipCursor : public SelectingCursor {
 public:
  SkipCursor(const SkipNode& node, const Context& context)
      : SelectingCursor(node, context), left_(node.count) {}

  bool next(Element& out) override {
    skip();
    return input_->next(out);
  }
  int64_t next_row() override {
    skip();
    return input_->next_row();
  }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    skip();
    return input_->next_block(most);
  }
  void save(StateWriter& state) override {
    state.stage("Skip");
    state.integer(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Skip");
    left_ = state.integer(0, left_);
    input_->restore(state);
  }

 private:
  void skip() {
    Pull pull{*input_, input_->table() != nullptr};
    while (left_ > 0) {
      check_running(context_);
      --left_;
      if (!pull()) left_ = 0;
    }
  }

  int64_t left_;
};

CursorPtr SkipNode::open(const Context& context) const {
  return std::make_unique<SkipCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_skip() { return std::make_shared<SkipNode>(); }

}  // namespace internal

Dataset Dataset::skip(int64_t count) const {
  auto node = internal::stage_on<internal::SkipNode>(node_);
  node->count = count;
  return internal::finish(node);
}

}  // namespace cohort::data
