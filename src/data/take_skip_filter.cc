// Stages that pass on some elements of their input, or all of them several times: take, skip,
// repeat, filter and take_while.

#include <algorithm>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class TakeNode : public Stage<TakeNode, class TakeCursor, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Take"; }
  Cardinality cardinality() const override {
    const Cardinality all = input().cardinality();
    if (all == kInfinite || count == 0) return count;
    return all.is_number() ? Cardinality(std::min(all.count(), count)) : all;
  }
  void check() const override { check_at_least("Take", "count", count, 0); }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return fmt::format("({})", count); }

  int64_t count = 0;
};

class TakeCursor : public SelectingCursor<TakeCursor, TakeNode> {
 public:
  using SelectingCursor::SelectingCursor;

  // An element that fails counts as taken.
  bool select(Pull& pull) {
    if (left_ == 0) return false;
    --left_;
    const bool found = pull();
    if (!found) left_ = 0;
    return found;
  }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    if (left_ == 0) return {};
    Block block = input_->next_block(std::min(most, left_));
    left_ -= block.count;
    return block;
  }

 private:
  void local_position(PositionFields& fields) override { fields.integer(left_, 0, left_); }

  int64_t left_ = node_.count;
};

class SkipNode : public Stage<SkipNode, class SkipCursor, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Skip"; }
  Cardinality cardinality() const override {
    const Cardinality all = input().cardinality();
    return all.is_number() ? Cardinality(std::max<int64_t>(0, all.count() - count)) : all;
  }
  void check() const override { check_at_least("Skip", "count", count, 0); }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return fmt::format("({})", count); }

  int64_t count = 0;
};

class SkipCursor : public SelectingCursor<SkipCursor, SkipNode> {
 public:
  using SelectingCursor::SelectingCursor;

  bool select(Pull& pull) {
    skip();
    return pull();
  }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    skip();
    return input_->next_block(most);
  }

 private:
  void skip() {
    Element skipped;
    Pull pull{input_, input_->table() == nullptr ? &skipped : nullptr};
    while (left_ > 0) {
      check_running(context_);
      --left_;
      if (!pull()) left_ = 0;
    }
  }
  void local_position(PositionFields& fields) override { fields.integer(left_, 0, left_); }

  int64_t left_ = node_.count;
};

class RepeatNode : public Stage<RepeatNode, class RepeatCursor, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Repeat"; }
  Cardinality cardinality() const override {
    const Cardinality all = input().cardinality();
    if (count == 0 || all == 0) return 0;
    if (count < 0) return kInfinite;
    return times(all, count);
  }
  void check() const override {
    if (count >= kForEver) return;
    raise(Code::InvalidArgument,
          "[Repeat] the count must be 0 or more, got {}; leave it empty to repeat for ever", count);
  }
  void fields(Fields& fields) override { fields.field("count", count); }
  std::string details() const override { return count < 0 ? "" : fmt::format("({})", count); }

  static constexpr int64_t kForEver = -1;
  int64_t count = kForEver;
};

class RepeatCursor : public SelectingCursor<RepeatCursor, RepeatNode> {
 public:
  using SelectingCursor::SelectingCursor;

  bool select(Pull& pull) { return again(pull); }
  bool has_blocks() const override { return input_->has_blocks(); }
  Block next_block(int64_t most) override {
    Block block;
    again([&] { return (block = input_->next_block(most)).count > 0; });
    return block;
  }

 private:
  bool has_epoch() const { return node_.count < 0 || epoch_ < node_.count; }

  template <typename Next>
  bool again(Next&& next) {
    while (has_epoch()) {
      check_running(context_);
      if (next()) return any_ = true;
      // The epoch had no elements, so no later epoch will have any.
      if (!any_ && node_.count < 0) return false;
      ++epoch_;
      any_ = false;
      if (has_epoch()) {
        input_.reset();
        input_ = node_.input().open(context_);
      }
    }
    return false;
  }
  void local_position(PositionFields& fields) override {
    fields.integer(epoch_, 0, INT64_MAX);
    fields.flag(any_);
  }

  int64_t epoch_ = 0;
  bool any_ = false;  // whether this epoch had an element
};

// Returns the bool that a predicate returned. Throws InvalidArgument if it is anything else.
bool to_bool(const Element& result) {
  const Tensor tensor = result.tensor();
  if (tensor.dtype() != kBool || tensor.size() != 1) {
    raise(Code::InvalidArgument, "the predicate must return one bool, got {} of shape {}",
          to_string(tensor.dtype()), tensor.shape().to_string());
  }
  return tensor.to<bool>();
}

// Filter and take_while.
class PredicateNode : public Stage<PredicateNode, class PredicateCursor, PassThroughNode> {
 public:
  std::string_view kind() const override { return ends ? "TakeWhile" : "Filter"; }
  Cardinality cardinality() const override { return unknown_unless_empty(input()); }
  void fields(Fields& fields) override { fields.field("predicate", predicate); }
  NodeRole role() const override { return ends ? NodeRole::Other : NodeRole::PassThrough; }

  Function predicate = DatasetAccess::empty<Function>();
  bool ends = false;  // whether the first element that is left out is the end
};

class PredicateCursor : public StageCursor<PredicateNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    while (!ended_) {
      check_running(context_);
      if (!input_->next(out)) break;
      const bool keep =
          in_stage(node_.kind(), index_++, [&] { return to_bool(node_.predicate(out)); });
      if (keep) return true;
      ended_ = node_.ends;
    }
    return false;
  }

 private:
  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.flag(ended_);
  }

  int64_t index_ = 0;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Node> make_take() { return std::make_shared<TakeNode>(); }
std::shared_ptr<Node> make_skip() { return std::make_shared<SkipNode>(); }
std::shared_ptr<Node> make_repeat() { return std::make_shared<RepeatNode>(); }
std::shared_ptr<Node> make_filter() { return std::make_shared<PredicateNode>(); }
std::shared_ptr<Node> make_take_while() {
  auto node = std::make_shared<PredicateNode>();
  node->ends = true;
  return node;
}

}  // namespace internal

Dataset Dataset::take(int64_t count) const {
  return internal::add_stage<internal::TakeNode>({node_}, [&](auto& node) { node.count = count; });
}

Dataset Dataset::skip(int64_t count) const {
  return internal::add_stage<internal::SkipNode>({node_}, [&](auto& node) { node.count = count; });
}

Dataset Dataset::repeat(std::optional<int64_t> count) const {
  return internal::add_stage<internal::RepeatNode>(
      {node_}, [&](auto& node) { node.count = count.value_or(internal::RepeatNode::kForEver); });
}

Dataset Dataset::filter(Function predicate) const {
  return internal::add_stage<internal::PredicateNode>(
      {node_}, [&](auto& node) { node.predicate = std::move(predicate); });
}

Dataset Dataset::take_while(Function predicate) const {
  return internal::add_stage<internal::PredicateNode>({node_}, [&](auto& node) {
    node.predicate = std::move(predicate);
    node.ends = true;
  });
}

}  // namespace cohort::data
