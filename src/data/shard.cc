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

}  // namespace

std::shared_ptr<Node> make_shard() { return std::make_shared<ShardNode>(); }

}  // namespace internal

Dataset Dataset::shard(int64_t count, int64_t index, const ShardOptions& options) const {
  auto node = internal::stage_on<internal::ShardNode>(node_);
  node->count = count;
  node->index = index;
  node->require_each = options.require_each;
  return internal::finish(node);
}

}  // namespace cohort::data
