#include "data/stage.h"
#include "data/worker_queue.h"

namespace cohort::data {
namespace internal {
namespace {

constexpr int kMaxAutomaticDepth = 16;
constexpr int64_t kSmallBytes = 1 << 20;

class PrefetchNode : public PassThroughNode<PrefetchNode> {
 public:
  std::string_view kind() const override { return "Prefetch"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return input().cardinality(); }
  int64_t read_ahead() const override { return depth == kAutotune ? INT64_MAX : depth; }
  void check() const override {
    if (depth != kAutotune) check_at_least("Prefetch", "depth (or kAutotune)", depth, 0);
  }
  void fields(Fields& fields) override { fields.field("depth", depth); }
  std::string details() const override {
    return depth == kAutotune ? "" : fmt::format("({})", depth);
  }

  int depth = kAutotune;
};

class PrefetchCursor : public Cursor {
 public:
  PrefetchCursor(const PrefetchNode& node, const Context& context)
      : queue_(context.stop,
               {.threads = 1,
                .capacity = node.depth == kAutotune ? 2 : node.depth,
                .max_capacity = node.depth == kAutotune ? kMaxAutomaticDepth : node.depth,
                .small_bytes = node.depth == kAutotune ? kSmallBytes : 0,
                .ordered = true,
                .may_pause = node.depth == kAutotune,
                .name = "prefetch"}) {
    Context inner = context;
    inner.stop = queue_.stop();
    input_ = node.input().open(inner);
    queue_.set_pull([this](Element& out, WorkerQueue::Work&) { return input_->next(out); });
  }
  ~PrefetchCursor() override { queue_.finish(); }

  bool next(Element& out) override { return queue_.next(out); }
  void save(StateWriter& state) override {
    state.stage("Prefetch");
    queue_.save(state, [&] { input_->save(state); });
  }
  void restore(StateReader& state) override {
    state.stage("Prefetch");
    queue_.restore(state);
    input_->restore(state);
  }

 private:
  WorkerQueue queue_;
  CursorPtr input_;
};

CursorPtr PrefetchNode::open(const Context& context) const {
  if (depth == 0) return input().open(context);
  return std::make_unique<PrefetchCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_prefetch() { return std::make_shared<PrefetchNode>(); }

}  // namespace internal

Dataset Dataset::prefetch(int depth) const {
  auto node = internal::stage_on<internal::PrefetchNode>(node_);
  node->depth = depth;
  return internal::finish(node);
}

}  // namespace cohort::data
