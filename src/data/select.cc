// Stages that leave elements out or give them again: take, skip, shard, repeat, take_while, filter.

#include <algorithm>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

// The next element or row of `input`, whichever the caller wants.
struct Pull {
  Cursor& input;
  bool rows;
  Element element = {};
  int64_t row = -1;

  bool operator()() {
    if (rows) return (row = input.next_row()) >= 0;
    return input.next(element);
  }
};

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

class ShardNode : public PassThroughNode<ShardNode> {
 public:
  std::string_view kind() const override { return "Shard"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (all < 0 || count == kShardHint) return all < 0 ? all : kUnknownCardinality;
    return all / count + (index < all % count ? 1 : 0);
  }
  void check() const override {
    if (count == kShardHint) return;
    check_at_least("Shard", "number of shards", count, 1);
    if (index < 0 || index >= count) {
      raise(Code::InvalidArgument, "[Shard] the index must be in [0, {}), got {}", count, index);
    }
  }
  void fields(Fields& fields) override {
    fields.field("count", count);
    fields.field("index", index);
    fields.field("require_each", require_each);
  }
  std::string details() const override { return fmt::format("({}, {})", count, index); }

  int64_t count = 1;
  int64_t index = 0;
  bool require_each = false;
};

class ShardCursor : public SelectingCursor {
 public:
  ShardCursor(const ShardNode& node, const Context& context)
      : SelectingCursor(node, context), shard_(node) {
    if (node.count == kShardHint) {
      raise(Code::FailedPrecondition,
            "[Shard] the number of shards is kShardHint, which only a strategy with "
            "AutoShardPolicy::Hint fills in");
    }
  }

  bool next(Element& out) override {
    Pull pull{*input_, false};
    if (!find(pull)) return false;
    out = std::move(pull.element);
    return true;
  }
  int64_t next_row() override {
    Pull pull{*input_, true};
    return find(pull) ? pull.row : -1;
  }
  void save(StateWriter& state) override {
    state.stage("Shard");
    state.integer(at_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Shard");
    at_ = state.integer(0, INT64_MAX);
    input_->restore(state);
  }

 private:
  bool find(Pull& pull) {
    if (shard_.require_each && at_ == 0) return find_first(pull);
    for (;;) {
      check_running(context_);
      const bool ours = at_++ % shard_.count == shard_.index;
      if (!pull()) return false;
      if (ours) return true;
    }
  }

  // Reads one element of each shard, to see that there are as many.
  bool find_first(Pull& pull) {
    Pull kept = pull;
    for (; at_ < shard_.count; ++at_) {
      if (!pull()) break;
      if (at_ == shard_.index) {
        kept.element = pull.element;
        kept.row = pull.row;
      }
    }
    if (at_ == 0) return false;
    if (at_ < shard_.count) {
      raise(Code::InvalidArgument,
            "[Shard] there are only {} elements (files or batches) for {} shards; use "
            "AutoShardPolicy::Data or Off, or make more",
            at_, shard_.count);
    }
    pull.element = std::move(kept.element);
    pull.row = kept.row;
    return true;
  }

  const ShardNode& shard_;
  int64_t at_ = 0;
};

CursorPtr ShardNode::open(const Context& context) const {
  return std::make_unique<ShardCursor>(*this, context);
}

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

std::shared_ptr<Node> make_take() { return std::make_shared<TakeNode>(); }
std::shared_ptr<Node> make_skip() { return std::make_shared<SkipNode>(); }
std::shared_ptr<Node> make_shard() { return std::make_shared<ShardNode>(); }
std::shared_ptr<Node> make_repeat() { return std::make_shared<RepeatNode>(); }
std::shared_ptr<Node> make_filter() { return std::make_shared<PredicateNode>(); }
std::shared_ptr<Node> make_take_while() {
  auto node = std::make_shared<PredicateNode>();
  node->ends = true;
  return node;
}

}  // namespace internal

Dataset Dataset::take(int64_t count) const {
  auto node = internal::stage_on<internal::TakeNode>(node_);
  node->count = count;
  return internal::finish(node);
}

Dataset Dataset::skip(int64_t count) const {
  auto node = internal::stage_on<internal::SkipNode>(node_);
  node->count = count;
  return internal::finish(node);
}

Dataset Dataset::shard(int64_t count, int64_t index, const ShardOptions& options) const {
  auto node = internal::stage_on<internal::ShardNode>(node_);
  node->count = count;
  node->index = index;
  node->require_each = options.require_each;
  return internal::finish(node);
}

Dataset Dataset::repeat(int64_t count) const {
  auto node = internal::stage_on<internal::RepeatNode>(node_);
  node->count = count;
  return internal::finish(node);
}

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
