#include "data/shard.h"

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ShardNode : public PassThroughNode<ShardNode> {
 public:
  std::string_view kind() const override { return "Shard"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (all < 0) return all;
    if (count == kShardHint) return kUnknownCardinality;
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
  bool divides() const override { return true; }

  int64_t count = 1;
  int64_t index = 0;
  bool require_each = false;
};

class ShardCursor : public SelectingCursor {
 public:
  ShardCursor(const ShardNode& node, const Context& context)
      : SelectingCursor(node, counting(context)), shard_(node) {
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
    state.flag(first_.has_value());
    if (first_) save_first(state);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Shard");
    at_ = state.integer(0, INT64_MAX);
    if (state.flag()) restore_first(state);
    input_->restore(state);
  }

 private:
  static Context counting(Context context) {
    context.counted = true;
    return context;
  }

  // What the count of the elements came across: an element, or a row of the input's table.
  struct First {
    Element element;
    int64_t row;
  };

  void save_first(StateWriter& state) const {
    state.integer(first_->row);
    if (first_->row < 0) state.element(first_->element);
  }
  void restore_first(StateReader& state) {
    const int64_t rows = table() == nullptr ? 0 : table()->count();
    const int64_t row = state.integer(-1, rows - 1);
    first_ = First{row < 0 ? state.element() : Element(), row};
  }

  bool find(Pull& pull) {
    if (shard_.require_each && at_ < shard_.count) check_each(pull.rows);
    if (first_) {
      pull.element = std::move(first_->element);
      pull.row = first_->row;
      first_.reset();
      return true;
    }
    for (;;) {
      check_running(context_);
      const bool ours = at_++ % shard_.count == shard_.index;
      if (!pull()) return false;
      if (ours) return true;
    }
  }

  // Reads one element of each shard, to see that there are as many. An element that fails counts.
  void check_each(bool rows) {
    Pull pull{*input_, rows};
    while (at_ < shard_.count) {
      check_running(context_);
      const int64_t number = at_++;
      if (!pull()) {
        at_ = shard_.count;
        first_.reset();
        if (number > 0) raise_too_few(number);
      } else if (number == shard_.index) {
        first_ = First{pull.element, pull.row};
      }
    }
  }

  [[noreturn]] void raise_too_few(int64_t found) const {
    raise(Code::InvalidArgument,
          "[Shard] there are only {} elements (files or batches) for {} shards; use "
          "AutoShardPolicy::Data or Off, or make more",
          found, shard_.count);
  }

  const ShardNode& shard_;
  int64_t at_ = 0;
  std::optional<First> first_;  // this shard's, until it is handed on
};

CursorPtr ShardNode::open(const Context& context) const {
  return std::make_unique<ShardCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_shard() { return std::make_shared<ShardNode>(); }

bool is_shard_hint(const Node& node) {
  const auto* shard = dynamic_cast<const ShardNode*>(&node);
  return shard != nullptr && shard->count == kShardHint;
}

NodePtr shard_of(const NodePtr& input, int64_t count, int64_t index) {
  const Dataset whole = DatasetAccess::make(input);
  return DatasetAccess::node(whole.shard(count, index, {.require_each = true}));
}

}  // namespace internal

Dataset Dataset::shard(int64_t count, int64_t index, const ShardOptions& options) const {
  auto node = internal::stage_on<internal::ShardNode>(node_);
  node->count = count;
  node->index = index;
  node->require_each = options.require_each;
  return internal::finish(node);
}

}  // namespace cohort::data
