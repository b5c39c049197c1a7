#include <algorithm>

#include "data/batch_rows.h"
#include "data/parallel_queue.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class BatchNode : public NodeOf<BatchNode> {
 public:
  std::string_view kind() const override { return "Batch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  Cardinality cardinality() const override {
    return number_of_batches(input().cardinality(), size, chosen.drop_remainder);
  }
  std::optional<ElementSpec> spec() const override {
    return batched(input().spec(), chosen.drop_remainder ? size : Shape::kUnknownDim);
  }
  int64_t batch_size() const override { return size; }
  void check() const override {
    check_at_least("Batch", "size", size, 1);
    check_threads("Batch", chosen.parallel);
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("drop_remainder", chosen.drop_remainder);
    fields.field("parallel", chosen.parallel);
  }
  std::string details() const override { return fmt::format("({})", size); }

  int64_t size = 1;
  BatchOptions chosen;
};

// Collects the elements of one batch. The collected elements stay when the input throws, so that
// only the element that fails is lost.
class Collector {
 public:
  Collector(const BatchNode& node, const Context& context) : node_(node), context_(context) {}

  // Reads until a batch is complete or the input ends. Returns false without a batch.
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
    return count_ == node_.size || (count_ > 0 && !node_.chosen.drop_remainder);
  }

  // Returns a function that makes the collected batch, and starts the next batch.
  auto take() {
    count_ = 0;
    return [elements = std::exchange(pending_, {}), blocks = blocks_, index = index_++] {
      return in_stage("Batch", index, [&] {
        return blocks ? join_batches("Batch", elements) : stack_elements("Batch", elements);
      });
    };
  }
  // Makes the collected batch, and starts the next batch.
  Element make() {
    if (!blocks_ || pending_.size() > 1) return take()();
    // The rows of the batch are already side by side.
    count_ = 0;
    ++index_;
    Element whole = std::move(pending_.front());
    pending_.clear();
    return whole;
  }

  void position(PositionFields& fields) {
    fields.integer(index_);
    fields.integer(count_, 0, node_.size);
    fields.flag(ended_);
    fields.flag(blocks_);
    fields.elements(pending_, count_);
  }

 private:
  void add(Element element) {
    constexpr int64_t kMaxReserved = 1024;
    if (pending_.empty()) {
      pending_.reserve(static_cast<size_t>(std::min(node_.size, kMaxReserved)));
    }
    pending_.push_back(std::move(element));
  }

  const BatchNode& node_;
  const Context context_;
  std::vector<Element> pending_;  // elements, or blocks of elements
  bool blocks_ = false;
  int64_t count_ = 0;  // of elements
  int64_t index_ = 0;  // of the batch
  bool ended_ = false;
};

class BatchCursor : public StageCursor<BatchNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    if (!collector_.collect(*input_)) return false;
    out = collector_.make();
    return true;
  }

 private:
  void local_position(PositionFields& fields) override { collector_.position(fields); }

  Collector collector_{node_, context_};
};

class ParallelBatchCursor : public ParallelCursor<BatchNode> {
 public:
  ParallelBatchCursor(const BatchNode& node, const Context& context, int threads)
      : ParallelCursor(node, context, "ParallelBatch",
                       {.threads = threads,
                        .capacity = 2 * threads,
                        .max_capacity = 2 * threads,
                        .ordered = context.keeps_order(),
                        .name = "batch"}) {
    queue_.set_pull([this](Element&, ParallelQueue::Work& work) {
      if (!collector_.collect(*input_)) return false;
      work = collector_.take();
      return true;
    });
  }
  ~ParallelBatchCursor() override { queue_.finish(); }

 private:
  void local_position(PositionFields& fields) override { collector_.position(fields); }

  Collector collector_{node_, context_};
};

CursorPtr BatchNode::open(const Context& context) const {
  const int threads = thread_count(chosen.parallel, context);
  if (threads == 1) return std::make_unique<BatchCursor>(*this, context);
  return std::make_unique<ParallelBatchCursor>(*this, context, threads);
}

}  // namespace

std::shared_ptr<Node> make_batch() { return std::make_shared<BatchNode>(); }

}  // namespace internal

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  return internal::add_stage<internal::BatchNode>({node_}, [&](auto& node) {
    node.size = size;
    node.chosen = options;
  });
}

}  // namespace cohort::data
