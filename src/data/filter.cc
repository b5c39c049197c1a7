#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

// Filter and take_while.
class PredicateNode : public PassThroughNode<PredicateNode> {
 public:
  std::string_view kind() const override { return ends ? "TakeWhile" : "Filter"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : kUnknownCardinality;
  }
  void fields(Fields& fields) override { fields.field("predicate", predicate); }
  NodeRole role() const override { return ends ? NodeRole::Other : NodeRole::PassThrough; }

  Function predicate = DatasetAccess::empty_function();
  bool ends = false;
};

class PredicateCursor : public StageCursor {
 public:
  PredicateCursor(const PredicateNode& node, const Context& context)
      : StageCursor(node, context), predicate_(node) {}

  bool next(Element& out) override {
    while (!ended_) {
      check_running(context_);
      if (!input_->next(out)) break;
      const bool keep =
          in_stage(predicate_.kind(), index_++, [&] { return to_bool(predicate_.predicate(out)); });
      if (keep) return true;
      ended_ = predicate_.ends;
    }
    return false;
  }
  void save(StateWriter& state) override {
    state.stage(predicate_.kind());
    state.integer(index_);
    state.flag(ended_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage(predicate_.kind());
    index_ = state.integer();
    ended_ = state.flag();
    input_->restore(state);
  }

 private:
  const PredicateNode& predicate_;
  int64_t index_ = 0;
  bool ended_ = false;
};

CursorPtr PredicateNode::open(const Context& context) const {
  return std::make_unique<PredicateCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_filter() { return std::make_shared<PredicateNode>(); }
std::shared_ptr<Node> make_take_while() {
  auto node = std::make_shared<PredicateNode>();
  node->ends = true;
  return node;
}

}  // namespace internal

Dataset Dataset::filter(Function predicate) const {
  auto node = internal::stage_on<internal::PredicateNode>(node_);
  node->predicate = std::move(predicate);
  return internal::finish(node);
}

Dataset Dataset::take_while(Function predicate) const {
  auto node = internal::stage_on<internal::PredicateNode>(node_);
  node->predicate = std::move(predicate);
  node->ends = true;
  return internal::finish(node);
}

}  // namespace cohort::data
