// Cuts a stream of samples anew, by a list of sizes.

#include <algorithm>

#include "data/rows.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class RebatchNode : public NodeOf<RebatchNode> {
 public:
  std::string_view kind() const override { return "Rebatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t batches = input().cardinality();
    return batches > 0 ? kUnknownCardinality : batches;
  }
  // The first size is known when all sizes are equal and no remainder can be short.
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> before = input().spec();
    int64_t size = sizes[0];
    if (std::ranges::any_of(sizes, [&](int64_t other) { return other != size; }) || size == 0) {
      size = Shape::kUnknownDim;
    }
    if (before && size > 0 && !drop_remainder) {
      for (const TensorSpec& tensor : before->tensors()) {
        const bool exact =
            tensor.shape.rank() > 0 && tensor.shape[0] >= 0 && tensor.shape[0] % size == 0;
        if (exact) continue;
        size = Shape::kUnknownDim;
        break;
      }
    }
    return batched(unbatched(before), size);
  }
  void check() const override {
    if (sizes.empty()) raise(Code::InvalidArgument, "[Rebatch] the list of sizes is empty");
    for (const int64_t size : sizes) check_at_least("Rebatch", "size", size, 0);
    if (std::ranges::all_of(sizes, [](int64_t size) { return size == 0; })) {
      raise(Code::InvalidArgument, "[Rebatch] all sizes are 0");
    }
    check_has_rows("Rebatch", input().spec());
  }
  void fields(Fields& fields) override {
    fields.field("sizes", sizes);
    fields.field("drop_remainder", drop_remainder);
  }
  std::string details() const override { return fmt::format("({})", fmt::join(sizes, ", ")); }

  std::vector<int64_t> sizes;
  bool drop_remainder = false;
};

class RebatchCursor : public StageCursor {
 public:
  RebatchCursor(const RebatchNode& node, const Context& context)
      : StageCursor(node, context), rebatch_(node) {}

  bool next(Element& out) override {
    const int64_t size = rebatch_.sizes[static_cast<size_t>(turn_)];
    if (size == 0) return next_empty(out);
    while (have_ < size && read()) {
    }
    if (have_ == 0 || (have_ < size && rebatch_.drop_remainder)) return false;
    turn_ = (turn_ + 1) % static_cast<int64_t>(rebatch_.sizes.size());
    out = take(std::min(size, have_));
    return true;
  }

  void save(StateWriter& state) override {
    state.stage("Rebatch");
    state.integer(turn_);
    state.integer(index_);
    state.flag(ended_);
    state.integer(static_cast<int64_t>(pending_.size()));
    for (const Element& batch : pending_) state.element(batch);
    state.flag(seen_.has_value());
    if (seen_) state.element(*seen_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Rebatch");
    turn_ = state.integer(0, static_cast<int64_t>(rebatch_.sizes.size()) - 1);
    index_ = state.integer();
    ended_ = state.flag();
    const int64_t count = state.integer(0, INT64_MAX);
    for (int64_t i = 0; i < count; ++i) {
      pending_.push_back(state.element());
      have_ += batch_rows("Restore", pending_.back());
    }
    if (state.flag()) seen_ = state.element();
    input_->restore(state);
  }

 private:
  bool read() {
    check_running(context_);
    Element batch;
    if (ended_ || !input_->next(batch)) {
      ended_ = true;
      return false;
    }
    const int64_t rows =
        in_stage("Rebatch", index_++, [&] { return batch_rows("Rebatch", batch); });
    if (!seen_) seen_ = batch_slice(batch, 0, 0);
    if (rows > 0) pending_.push_back(std::move(batch));
    have_ += rows;
    return true;
  }

  // Without reading, once it is known what a batch looks like.
  bool next_empty(Element& out) {
    if (!seen_ && !read()) return false;
    turn_ = (turn_ + 1) % static_cast<int64_t>(rebatch_.sizes.size());
    out = *seen_;
    return true;
  }

  Element take(int64_t size) {
    std::vector<Element> parts;
    have_ -= size;
    while (size > 0) {
      Element& front = pending_.front();
      const int64_t rows = batch_rows("Rebatch", front);
      const int64_t count = std::min(rows, size);
      parts.push_back(batch_slice(front, 0, count));
      if (count == rows) {
        pending_.erase(pending_.begin());
      } else {
        front = batch_slice(front, count, rows);
      }
      size -= count;
    }
    return in_stage("Rebatch", index_, [&] { return join_batches("Rebatch", parts); });
  }

  const RebatchNode& rebatch_;
  std::vector<Element> pending_;
  int64_t have_ = 0;             // rows of pending_
  std::optional<Element> seen_;  // an empty batch
  int64_t turn_ = 0;
  int64_t index_ = 0;
  bool ended_ = false;
};

CursorPtr RebatchNode::open(const Context& context) const {
  return std::make_unique<RebatchCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_rebatch() { return std::make_shared<RebatchNode>(); }

}  // namespace internal

Dataset Dataset::rebatch(std::vector<int64_t> sizes, const BatchOptions& options) const {
  auto node = internal::stage_on<internal::RebatchNode>(node_);
  node->sizes = std::move(sizes);
  node->drop_remainder = options.drop_remainder;
  return internal::finish(node);
}

}  // namespace cohort::data
