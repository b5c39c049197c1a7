#include <algorithm>

#include "data/rows.h"
#include "data/stage.h"
#include "data/worker_queue.h"

namespace cohort::data {
namespace internal {
namespace {

class BatchNode : public NodeOf<BatchNode> {
 public:
  std::string_view kind() const override { return "Batch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    return number_of_batches(input().cardinality(), size, drop_remainder);
  }
  std::optional<ElementSpec> spec() const override {
    return batched(input().spec(), drop_remainder ? size : Shape::kUnknownDim);
  }
  int64_t batch_size() const override { return size; }
  void check() const override {
    check_at_least("Batch", "size", size, 1);
    if (parallel != kAutotune) check_at_least("Batch", "number of threads", parallel, 1);
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("drop_remainder", drop_remainder);
    fields.field("parallel", parallel);
  }
  std::string details() const override { return fmt::format("({})", size); }

  int64_t size = 1;
  bool drop_remainder = false;
  int parallel = 1;
};

// Collects the elements of one batch. Keeps what it has when the input throws, so that an element
// that fails costs itself only.
class Collector {
 public:
  Collector(const BatchNode& node, const Context& context) : node_(node), context_(context) {}

  // Reads until a batch is complete or the input ends; false when there is nothing to hand on.
  bool collect(Cursor& input) {
    blocks_ = input.has_blocks();
    while (count_ < node_.size && !ended_) {
      check_running(context_);
      if (blocks_) {
        Block block = input.next_block(node_.size - count_);
        ended_ = block.count == 0;
        if (!ended_) pending_.push_back(std::move(block.rows));
        count_ += block.count;
      } else {
        Element element;
        ended_ = !input.next(element);
        if (!ended_) add(std::move(element));
        count_ += ended_ ? 0 : 1;
      }
    }
    return count_ == node_.size || (count_ > 0 && !node_.drop_remainder);
  }

  // What to do with the batch that is complete; the collector starts anew.
  WorkerQueue::Work take() {
    count_ = 0;
    return [elements = std::exchange(pending_, {}), blocks = blocks_, index = index_++] {
      return in_stage("Batch", index, [&] {
        return blocks ? join_batches("Batch", elements) : stack_elements("Batch", elements);
      });
    };
  }
  // The same, now.
  Element make() {
    count_ = 0;
    if (blocks_ && pending_.size() == 1) {  // the input had all of it side by side
      ++index_;
      Element whole = std::move(pending_.front());
      pending_.clear();
      return whole;
    }
    const std::vector<Element> elements = std::exchange(pending_, {});
    return in_stage("Batch", index_++, [&] {
      return blocks_ ? join_batches("Batch", elements) : stack_elements("Batch", elements);
    });
  }

  void save(StateWriter& state) const {
    state.integer(index_);
    state.integer(count_);
    state.flag(ended_);
    state.flag(blocks_);
    state.integer(static_cast<int64_t>(pending_.size()));
    for (const Element& element : pending_) state.element(element);
  }
  void restore(StateReader& state) {
    index_ = state.integer();
    count_ = state.integer(0, node_.size);
    ended_ = state.flag();
    blocks_ = state.flag();
    const int64_t pending = state.integer(0, count_);
    for (int64_t i = 0; i < pending; ++i) pending_.push_back(state.element());
  }

 private:
  void add(Element element) {
    constexpr int64_t kMostInAdvance = 1024;
    if (pending_.empty()) {
      pending_.reserve(static_cast<size_t>(std::min(node_.size, kMostInAdvance)));
    }
    pending_.push_back(std::move(element));
  }

  const BatchNode& node_;
  const Context context_;
  std::vector<Element> pending_;  // elements, or blocks of them
  bool blocks_ = false;
  int64_t count_ = 0;  // of elements
  int64_t index_ = 0;  // of the batch
  bool ended_ = false;
};

class BatchCursor : public StageCursor {
 public:
  BatchCursor(const BatchNode& node, const Context& context)
      : StageCursor(node, context), collector_(node, context) {}

  bool next(Element& out) override {
    if (!collector_.collect(*input_)) return false;
    out = collector_.make();
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("Batch");
    collector_.save(state);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Batch");
    collector_.restore(state);
    input_->restore(state);
  }

 private:
  Collector collector_;
};

class ParallelBatchCursor : public Cursor {
 public:
  ParallelBatchCursor(const BatchNode& node, const Context& context, int threads)
      : queue_(context.stop, {.threads = threads,
                              .capacity = 2 * threads,
                              .max_capacity = 2 * threads,
                              .ordered = context.keeps_order(),
                              .name = "batch"}),
        collector_(node, with_stop(context, queue_.stop())),
        input_(node.input().open(with_stop(context, queue_.stop()))) {
    queue_.set_pull([this](Element&, WorkerQueue::Work& work) {
      if (!collector_.collect(*input_)) return false;
      work = collector_.take();
      return true;
    });
  }
  ~ParallelBatchCursor() override { queue_.finish(); }

  bool next(Element& out) override { return queue_.next(out); }
  void save(StateWriter& state) override {
    state.stage("ParallelBatch");
    queue_.save(state, [&] {
      collector_.save(state);
      input_->save(state);
    });
  }
  void restore(StateReader& state) override {
    state.stage("ParallelBatch");
    queue_.restore(state);
    collector_.restore(state);
    input_->restore(state);
  }

 private:
  static Context with_stop(Context context, std::stop_token stop) {
    context.stop = std::move(stop);
    return context;
  }

  WorkerQueue queue_;
  Collector collector_;
  CursorPtr input_;
};

CursorPtr BatchNode::open(const Context& context) const {
  const int threads = thread_count(parallel, context);
  if (threads == 1) return std::make_unique<BatchCursor>(*this, context);
  return std::make_unique<ParallelBatchCursor>(*this, context, threads);
}

}  // namespace

std::shared_ptr<Node> make_batch() { return std::make_shared<BatchNode>(); }

}  // namespace internal

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  auto node = internal::stage_on<internal::BatchNode>(node_);
  node->size = size;
  node->drop_remainder = options.drop_remainder;
  node->parallel = options.parallel;
  return internal::finish(node);
}

}  // namespace cohort::data
