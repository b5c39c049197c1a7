#include "data/parallel_queue.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

constexpr int kMaxAutomaticDepth = 16;
constexpr int64_t kSmallBytes = 1 << 20;

class PrefetchNode : public NodeOf<PrefetchNode, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Prefetch"; }
  bool is_sharded_before() const override { return true; }
  CursorPtr open(const Context& context) const override;
  int64_t read_ahead() const override { return depth == kAutotune ? INT64_MAX : depth; }
  void check() const override {
    if (depth != kAutotune) check_at_least("Prefetch", "depth (or kAutotune)", depth, 0);
  }
  void fields(Fields& fields) override { fields.field("depth", depth); }
  std::string details() const override {
    return depth == kAutotune ? "" : fmt::format("({})", depth);
  }

  ParallelQueue::Options queue_options() const {
    const bool automatic = depth == kAutotune;
    return {.threads = 1,
            .capacity = automatic ? 2 : depth,
            .max_capacity = automatic ? kMaxAutomaticDepth : depth,
            .small_bytes = automatic ? kSmallBytes : 0,
            .ordered = true,
            .may_pause = automatic,
            .name = "prefetch"};
  }

  int depth = kAutotune;
};

class PrefetchCursor : public ParallelCursor<PrefetchNode> {
 public:
  PrefetchCursor(const PrefetchNode& node, const Context& context)
      : ParallelCursor(node, context, "Prefetch", node.queue_options()) {
    queue_.set_pull([this](Element& out, ParallelQueue::Work&) { return input_->next(out); });
  }
};

CursorPtr PrefetchNode::open(const Context& context) const {
  if (depth == 0) return input().open(context);
  return std::make_unique<PrefetchCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_prefetch() { return std::make_shared<PrefetchNode>(); }

}  // namespace internal

Dataset Dataset::prefetch(int depth) const {
  return internal::add_stage<internal::PrefetchNode>({node_},
                                                     [&](auto& node) { node.depth = depth; });
}

}  // namespace cohort::data
