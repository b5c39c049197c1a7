#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ShardNode : public Stage<ShardNode, class ShardCursor, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Shard"; }
  Cardinality cardinality() const override {
    const Cardinality all = input().cardinality();
    if (!all.is_number()) return all;
    if (count == kHint) return kUnknownCardinality;
    return all.count() / count + (index < all.count() % count ? 1 : 0);
  }
  void check() const override {
    if (count == kHint) return;
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
  std::string details() const override {
    return count == kHint ? fmt::format("(kShardHint, {})", index)
                          : fmt::format("({}, {})", count, index);
  }
  bool divides() const override { return true; }
  void fill_shard_hint(int64_t shards, int64_t shard) override {
    if (count != kHint) return;
    count = shards;
    index = shard;
    require_each = true;
  }

  static constexpr int64_t kHint = -1;  // the count that stands for kShardHint in descriptions
  int64_t count = 1;
  int64_t index = 0;
  bool require_each = false;
};

class ShardCursor : public SelectingCursor<ShardCursor, ShardNode> {
 public:
  ShardCursor(const ShardNode& node, const Context& context)
      : SelectingCursor(node, counting(context)) {
    if (node.count == ShardNode::kHint) {
      raise(Code::FailedPrecondition,
            "[Shard] the number of shards is kShardHint, which only a strategy with "
            "AutoShardPolicy::Hint fills in; give a number, or distribute the dataset with that "
            "policy");
    }
  }

  bool select(Pull& pull) {
    if (node_.require_each && at_ < node_.count) check_each(pull.element == nullptr);
    if (first_) {
      if (pull.element != nullptr) *pull.element = std::move(first_->element);
      pull.row = first_->row;
      first_.reset();
      return true;
    }
    for (;;) {
      check_running(context_);
      const bool ours = at_++ % node_.count == node_.index;
      if (!pull()) return false;
      if (ours) return true;
    }
  }

 private:
  static Context counting(Context context) {
    context.counted = true;
    return context;
  }

  // An element, or a row of the input's table.
  struct First {
    Element element;
    int64_t row = -1;
  };

  void local_position(PositionFields& fields) override {
    bool has_first = first_.has_value();
    fields.integer(at_, 0, INT64_MAX);
    fields.flag(has_first);
    if (!has_first) return;
    if (fields.reading()) first_ = First{};
    const int64_t rows = table() == nullptr ? 0 : table()->count();
    fields.integer(first_->row, -1, rows - 1);
    if (first_->row < 0) fields.element(first_->element);
  }

  // Reads one element of each shard, to check that every shard has one. An element that fails
  // counts.
  void check_each(bool rows) {
    Element element;
    Pull pull{input_, rows ? nullptr : &element};
    while (at_ < node_.count) {
      check_running(context_);
      const int64_t number = at_++;
      if (!pull()) {
        at_ = node_.count;
        first_.reset();
        if (number > 0) raise_too_few(number);
      } else if (number == node_.index) {
        first_ = First{element, pull.row};
      }
    }
  }

  [[noreturn]] void raise_too_few(int64_t found) const {
    raise(Code::InvalidArgument,
          "[Shard] there are only {} elements (files or batches) for {} shards; use "
          "AutoShardPolicy::Data or Off, or make more",
          found, node_.count);
  }

  int64_t at_ = 0;
  std::optional<First> first_;  // this shard's first element, until it is delivered
};

}  // namespace

std::shared_ptr<Node> make_shard() { return std::make_shared<ShardNode>(); }

}  // namespace internal

Dataset Dataset::shard(ShardCount count, int64_t index, const ShardOptions& options) const {
  if (count.number() == internal::ShardNode::kHint) {
    internal::raise(
        Code::InvalidArgument,
        "[Shard] the number of shards must be at least 1, got {}; use kShardHint to let "
        "the strategy set it",
        *count.number());
  }
  return internal::add_stage<internal::ShardNode>({node_}, [&](auto& node) {
    node.count = count.number().value_or(internal::ShardNode::kHint);
    node.index = index;
    node.require_each = options.require_each;
  });
}

}  // namespace cohort::data
