// Stages that change how samples are batched: unbatch, rebatch and split_batches.

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "data/batch_rows.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class UnbatchNode : public Stage<UnbatchNode, class UnbatchCursor> {
 public:
  std::string_view kind() const override { return "Unbatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  Cardinality cardinality() const override {
    const Cardinality batches = input().cardinality();
    if (batches == 0 || !batches.is_number()) return batches;
    const std::optional<ElementSpec> batch = input().spec();
    if (!batch || batch->tensors().empty()) return kUnknownCardinality;
    const Shape shape = batch->tensors()[0].shape;
    if (shape.rank() < 1 || shape[0] < 0) return kUnknownCardinality;
    return times(batches, shape[0]);
  }
  std::optional<ElementSpec> spec() const override { return unbatched(input().spec()); }
  void check() const override { check_has_rows("Unbatch", input().spec()); }
};

class UnbatchCursor : public StageCursor<UnbatchNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    if (!ready()) return false;
    out = batch_row(batch_, at_++);
    return true;
  }
  bool has_blocks() const override { return true; }
  Block next_block(int64_t most) override {
    if (!ready()) return {};
    const int64_t end = std::min(rows_, at_ + most);
    Block block{end - at_, batch_slice(batch_, at_, end)};
    at_ = end;
    return block;
  }

 private:
  // Reads the next batch if all rows have been delivered. Returns false at the end.
  bool ready() {
    while (at_ == rows_) {
      check_running(context_);
      at_ = rows_ = 0;
      if (!input_->next(batch_)) return false;
      rows_ = in_stage("Unbatch", index_++, [&] { return batch_rows("Unbatch", batch_); });
      batch_ = in_row_order(batch_);
    }
    return true;
  }

  void local_position(PositionFields& fields) override {
    if (at_ < rows_) batch_ = batch_slice(batch_, at_, rows_);
    rows_ -= std::exchange(at_, 0);
    fields.integer(rows_, 0, INT64_MAX);
    if (rows_ > 0) {
      fields.element(batch_);
      if (batch_rows("Restore", batch_) != rows_) raise_bad_state("rows are missing");
    }
    fields.integer(index_);
  }

  Element batch_;
  int64_t at_ = 0;
  int64_t rows_ = 0;
  int64_t index_ = 0;
};

// Cuts the sequence of all samples into batches, by a list of sizes.
class RebatchNode : public Stage<RebatchNode, class RebatchCursor> {
 public:
  std::string_view kind() const override { return "Rebatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  Cardinality cardinality() const override {
    const Cardinality batches = input().cardinality();
    return batches.is_number() && batches > 0 ? kUnknownCardinality : batches;
  }
  // The first dimension is known if all sizes are equal and no batch can be smaller.
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> before = input().spec();
    int64_t size = sizes[0];
    if (std::ranges::any_of(sizes, [&](int64_t other) { return other != size; }) || size == 0) {
      size = Shape::kUnknownDim;
    }
    const auto is_exact = [&](const TensorSpec& tensor) {
      return tensor.shape.rank() > 0 && tensor.shape[0] >= 0 && tensor.shape[0] % size == 0;
    };
    if (before && size > 0 && !drop_remainder &&
        !std::ranges::all_of(before->tensors(), is_exact)) {
      size = Shape::kUnknownDim;
    }
    return batched(unbatched(before), size);
  }
  void check() const override {
    if (sizes.empty()) raise(Code::InvalidArgument, "[Rebatch] the list of sizes is empty");
    for (const int64_t size : sizes) check_at_least("Rebatch", "size", size, 0);
    if (std::ranges::all_of(sizes, [](int64_t size) { return size == 0; })) {
      raise(Code::InvalidArgument,
            "[Rebatch] at least one size must be positive, but all sizes are 0");
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

class RebatchCursor : public StageCursor<RebatchNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    const int64_t size = node_.sizes[turn_];
    if (size == 0) return next_empty(out);
    while (have_ < size && read()) {
    }
    if (have_ == 0 || (have_ < size && node_.drop_remainder)) return false;
    turn_ = (turn_ + 1) % node_.sizes.size();
    out = take(std::min(size, have_));
    return true;
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

  // Reads only if the structure of the batches is not yet known.
  bool next_empty(Element& out) {
    if (!seen_ && !read()) return false;
    turn_ = (turn_ + 1) % node_.sizes.size();
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

  void local_position(PositionFields& fields) override {
    fields.index(turn_, node_.sizes.size() - 1);
    fields.integer(index_);
    fields.flag(ended_);
    fields.elements(pending_);
    fields.element(seen_);
    if (!fields.reading()) return;
    for (const Element& batch : pending_) have_ += batch_rows("Restore", batch);
  }

  std::vector<Element> pending_;
  int64_t have_ = 0;             // rows of pending_
  std::optional<Element> seen_;  // a batch without rows, once a batch was read
  size_t turn_ = 0;              // the size that is next
  int64_t index_ = 0;
  bool ended_ = false;
};

// Cuts each batch into a number of parts.
class SplitNode : public Stage<SplitNode, class SplitCursor> {
 public:
  std::string_view kind() const override { return "SplitBatches"; }
  NodeRole role() const override { return NodeRole::Transform; }
  Cardinality cardinality() const override {
    const Cardinality batches = input().cardinality();
    return times(batches, parts);
  }
  std::optional<ElementSpec> spec() const override {
    std::optional<ElementSpec> before = input().spec();
    if (!before) return std::nullopt;
    std::vector<TensorSpec> tensors = before->tensors();
    for (TensorSpec& tensor : tensors) {
      if (tensor.shape.rank() < 1) continue;
      const int64_t rows = tensor.shape[0];
      const bool even = rows >= 0 && rows % parts == 0;
      tensor.shape = tensor.shape.with(0, even ? rows / parts : Shape::kUnknownDim);
    }
    return ElementSpec(*before, std::move(tensors));
  }
  void check() const override {
    check_at_least("SplitBatches", "number of parts", parts, 1);
    check_has_rows("SplitBatches", input().spec());
  }
  void fields(Fields& fields) override { fields.field("parts", parts); }
  std::string details() const override { return fmt::format("({})", parts); }

  int64_t parts = 1;
};

class SplitCursor : public StageCursor<SplitNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    check_running(context_);
    if (at_ == node_.parts) {
      if (!input_->next(batch_)) return false;
      in_stage("SplitBatches", index_++, [&] { check_batch(); });
      at_ = 0;
    }
    out = with_each_tensor(batch_, [&](const Tensor& tensor) { return part_of(tensor); });
    ++at_;
    return true;
  }

 private:
  void check_batch() {
    const std::vector<Tensor> tensors = tensors_of(batch_);
    for (const Tensor& tensor : tensors) {
      if (tensor.rank() > 0) continue;
      raise(Code::InvalidArgument,
            "needs batches, but a part of the element is a scalar; call batch() first");
    }
    for (const Tensor& tensor : tensors) {
      if (tensor.shape()[0] == tensors[0].shape()[0]) continue;
      warn_of_unequal_parts(tensors[0].shape(), tensor.shape());
      return;
    }
  }

  // Elements that are not batches, such as features (2,) with a label (1,), would be cut in
  // silence.
  void warn_of_unequal_parts(const Shape& a, const Shape& b) {
    if (std::exchange(has_warned_, true)) return;
    cohort::internal::log_warning(
        "[Dataset] an element is divided as a batch, but its parts have different first "
        "dimensions, shapes {} and {}, and each is cut by its own; if the elements are single "
        "examples, call batch() first",
        a.to_string(), b.to_string());
  }

  // The tensors of an element may have different numbers of rows.
  Tensor part_of(const Tensor& tensor) const {
    const int64_t rows = tensor.shape()[0];
    const int64_t each = rows / node_.parts + (rows % node_.parts != 0 ? 1 : 0);
    const int64_t begin = std::min(rows, at_ * each);
    return rows_of(tensor, begin, std::min(rows, begin + each));
  }

  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.integer(at_, 0, node_.parts);
    if (at_ == node_.parts) return;
    fields.element(batch_);
    check_batch();
  }

  Element batch_;
  bool has_warned_ = false;   // of parts with different first dimensions
  int64_t at_ = node_.parts;  // the part of batch_ that is next
  int64_t index_ = 0;
};

}  // namespace

std::shared_ptr<Node> make_unbatch() { return std::make_shared<UnbatchNode>(); }
std::shared_ptr<Node> make_rebatch() { return std::make_shared<RebatchNode>(); }
std::shared_ptr<Node> make_split_batches() { return std::make_shared<SplitNode>(); }

}  // namespace internal

Dataset Dataset::unbatch() const { return internal::add_stage<internal::UnbatchNode>({node_}); }

Dataset Dataset::rebatch(std::vector<int64_t> sizes, const BatchOptions& options) const {
  return internal::add_stage<internal::RebatchNode>({node_}, [&](auto& node) {
    node.sizes = std::move(sizes);
    node.drop_remainder = options.drop_remainder;
  });
}

Dataset Dataset::split_batches(int64_t parts) const {
  return internal::add_stage<internal::SplitNode>({node_}, [&](auto& node) { node.parts = parts; });
}

}  // namespace cohort::data
