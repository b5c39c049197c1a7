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
  int64_t read_ahead() const override {
    return depth.number() ? int64_t{*depth.number()} : INT64_MAX;
  }
  void check() const override { check_autotuned("Prefetch", "depth", depth, 0); }
  void fields(Fields& fields) override { fields.field("depth", depth); }
  std::string details() const override {
    return depth.number() ? fmt::format("({})", *depth.number()) : "";
  }

  ParallelQueue::Options queue_options() const {
    const bool automatic = !depth.number();
    return {.capacity = depth.number().value_or(2),
            .max_capacity = depth.number().value_or(kMaxAutomaticDepth),
            .small_bytes = automatic ? kSmallBytes : 0,
            .may_pause = automatic,
            .name = "prefetch"};
  }

  IntOrAutotune depth = kAutotune;
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

Dataset Dataset::prefetch(IntOrAutotune depth) const {
  return internal::add_stage<internal::PrefetchNode>({node_},
                                                     [&](auto& node) { node.depth = depth; });
}

}  // namespace cohort::data
