// Batches of elements that differ in shape: padded_batch and bucket_by_length.

#include <algorithm>
#include <cstring>

#include "data/batch_rows.h"
#include "data/stage.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

using cohort::internal::strings;

// Returns the shape that all tensors of `column` are padded to.
Shape padded_shape(std::string_view stage, std::span<const Tensor* const> column,
                   const Shape& wanted) {
  const int rank = column[0]->rank();
  if (wanted.has_rank() && wanted.rank() != rank) {
    raise(
        Code::InvalidArgument,
        "[{}] elements of shape {} cannot be padded to {}, which has another number of dimensions",
        stage, column[0]->shape().to_string(), wanted.to_string());
  }
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 0);
  for (const Tensor* part : column) {
    if (part->rank() != rank || part->dtype() != column[0]->dtype()) {
      raise(Code::InvalidArgument,
            "[{}] elements of one batch differ in rank or dtype: {} {} and {} {}", stage,
            to_string(column[0]->dtype()), column[0]->shape().to_string(), to_string(part->dtype()),
            part->shape().to_string());
    }
    for (int axis = 0; axis < rank; ++axis) {
      int64_t& size = sizes[static_cast<size_t>(axis)];
      size = std::max(size, part->shape()[axis]);
      const bool fixed = wanted.has_rank() && wanted[axis] >= 0;
      if (fixed && part->shape()[axis] > wanted[axis]) {
        raise(Code::InvalidArgument,
              "[{}] an element of shape {} is larger than the padded shape {}", stage,
              part->shape().to_string(), wanted.to_string());
      }
      if (fixed) size = wanted[axis];
    }
  }
  return Shape(sizes);
}

// Calls copy(source offset, target offset, count) for each innermost run of `from` inside `to`.
template <typename Copy>
void for_each_run(const Shape& from, const Shape& to, const Copy& copy) {
  const int64_t elements = from.num_elements();
  if (elements == 0) return;
  const int64_t run = from.rank() == 0 ? 1 : from[-1];
  for (int64_t at = 0; at < elements; at += run) {
    int64_t rest = at;
    int64_t target = 0;
    int64_t stride = 1;
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      target += rest % from[axis] * stride;
      rest /= from[axis];
      stride *= to[axis];
    }
    copy(at, target, run);
  }
}

Tensor pad_strings(std::span<const Tensor* const> column, const Shape& shape, const Tensor* value) {
  const std::string fill = value == nullptr ? std::string() : value->to<std::string>();
  const int64_t width = shape.num_elements();
  std::vector<std::string> all(column.size() * static_cast<size_t>(width), fill);
  auto row = all.begin();
  for (const Tensor* part : column) {
    const auto& from = strings(*part);
    for_each_run(part->shape(), shape, [&](int64_t source, int64_t target, int64_t count) {
      std::copy_n(from.begin() + source, count, row + target);
    });
    row += width;
  }
  return Tensor::from(std::move(all), shape.with_inserted(0, static_cast<int64_t>(column.size())));
}

// Fills `bytes` with copies of one element.
void fill(std::span<std::byte> bytes, std::span<const std::byte> element) {
  if (std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; })) {
    if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
    return;
  }
  for (size_t at = 0; at < bytes.size(); at += element.size()) {
    std::memcpy(bytes.data() + at, element.data(), element.size());
  }
}

Tensor pad_column(std::string_view stage, std::span<const Tensor* const> column,
                  const Shape& wanted, const Tensor* value) {
  const Shape shape = padded_shape(stage, column, wanted);
  const DType dtype = column[0]->dtype();
  if (value != nullptr && value->dtype() != dtype) {
    raise(Code::InvalidArgument, "[{}] {} elements cannot be padded with a {} value", stage,
          to_string(dtype), to_string(value->dtype()));
  }
  if (dtype == kString) return pad_strings(column, shape, value);
  const int64_t width = shape.num_elements();
  const auto bytes = static_cast<size_t>(size_of(dtype));
  auto made = cohort::internal::allocate_tensor(
      dtype, shape.with_inserted(0, static_cast<int64_t>(column.size())));
  static constexpr std::byte kZero[16] = {};
  fill({made.data, column.size() * static_cast<size_t>(width) * bytes},
       value != nullptr ? raw_bytes(*value) : std::span<const std::byte>(kZero, bytes));
  std::byte* row = made.data;
  for (const Tensor* part : column) {
    const std::byte* from = raw_bytes(*part).data();
    for_each_run(part->shape(), shape, [&](int64_t source, int64_t target, int64_t count) {
      std::memcpy(row + static_cast<size_t>(target) * bytes,
                  from + static_cast<size_t>(source) * bytes, static_cast<size_t>(count) * bytes);
    });
    row += static_cast<size_t>(width) * bytes;
  }
  return made.tensor;
}

// Throws InvalidArgument for values that are not scalars.
void check_padding(std::string_view stage, std::span<const Tensor> values) {
  for (const Tensor& value : values) {
    if (value.size() == 1 && (is_numeric(value.dtype()) || value.dtype() == kString)) continue;
    raise(Code::InvalidArgument, "[{}] a padding value must be one number or string, got shape {}",
          stage, value.shape().to_string());
  }
}

// Returns the elements as one batch.
Element pad_elements(std::string_view stage, std::span<const Element> elements,
                     const PaddedBatchOptions& options) {
  const size_t leaves = structure_of(elements[0])->leaves;
  for (const auto& [count, what] : {std::pair(options.shapes.size(), "shapes"),
                                    std::pair(options.padding.size(), "padding values")}) {
    if (count == 0 || count == leaves) continue;
    raise(Code::InvalidArgument,
          "[{}] got {} {} for elements of {} tensors; give one for each tensor", stage, count, what,
          leaves);
  }
  return combine_columns(stage, elements, [&](std::span<const Tensor* const> column, size_t place) {
    return pad_column(stage, column,
                      options.shapes.empty() ? Shape::unknown() : options.shapes[place],
                      options.padding.empty() ? nullptr : &options.padding[place]);
  });
}

class PaddedBatchNode : public Stage<PaddedBatchNode, class PaddedBatchCursor> {
 public:
  std::string_view kind() const override { return "PaddedBatch"; }
  NodeRole role() const override { return NodeRole::Transform; }
  Cardinality cardinality() const override {
    return number_of_batches(input().cardinality(), size, chosen.drop_remainder);
  }
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> before = input().spec();
    if (!before) return std::nullopt;
    std::vector<TensorSpec> tensors = before->tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int rank = tensors[i].shape.rank();
      if (!chosen.shapes.empty() && i < chosen.shapes.size()) {
        tensors[i].shape = chosen.shapes[i];
      } else if (rank >= 0) {
        tensors[i].shape = Shape(std::vector<int64_t>(static_cast<size_t>(rank), -1));
      }
    }
    return batched(ElementSpec(*before, std::move(tensors)),
                   chosen.drop_remainder ? size : Shape::kUnknownDim);
  }
  int64_t batch_size() const override { return size; }
  void check() const override {
    check_at_least("PaddedBatch", "size", size, 1);
    check_padding("PaddedBatch", chosen.padding);
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("shapes", chosen.shapes);
    fields.field("padding", chosen.padding);
    fields.field("drop_remainder", chosen.drop_remainder);
  }
  std::string details() const override { return fmt::format("({})", size); }

  int64_t size = 1;
  PaddedBatchOptions chosen;
};

class PaddedBatchCursor : public StageCursor<PaddedBatchNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    while (static_cast<int64_t>(pending_.size()) < node_.size && !ended_) {
      check_running(context_);
      Element element;
      ended_ = !input_->next(element);
      if (!ended_) pending_.push_back(std::move(element));
    }
    const bool full = static_cast<int64_t>(pending_.size()) == node_.size;
    if (pending_.empty() || (!full && node_.chosen.drop_remainder)) return false;
    const std::vector<Element> elements = std::exchange(pending_, {});
    out = in_stage("PaddedBatch", index_++,
                   [&] { return pad_elements("PaddedBatch", elements, node_.chosen); });
    return true;
  }

 private:
  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.flag(ended_);
    fields.elements(pending_, node_.size);
  }

  std::vector<Element> pending_;
  int64_t index_ = 0;
  bool ended_ = false;
};

class BucketNode : public Stage<BucketNode, class BucketCursor> {
 public:
  std::string_view kind() const override { return "BucketByLength"; }
  Cardinality cardinality() const override { return unknown_unless_empty(input()); }
  void check() const override {
    if (boundaries.empty() || !std::ranges::is_sorted(boundaries, std::less_equal<>()) ||
        boundaries[0] < 1) {
      raise(Code::InvalidArgument,
            "[BucketByLength] the boundaries must be positive and ascending, got ({})",
            fmt::join(boundaries, ", "));
    }
    if (sizes.size() != boundaries.size() + 1) {
      raise(Code::InvalidArgument,
            "[BucketByLength] {} boundaries make {} buckets, but there are {} batch sizes",
            boundaries.size(), boundaries.size() + 1, sizes.size());
    }
    for (const int64_t size : sizes) check_at_least("BucketByLength", "batch size", size, 1);
    check_padding("BucketByLength", chosen.padding);
  }
  void fields(Fields& fields) override {
    fields.field("length", length);
    fields.field("boundaries", boundaries);
    fields.field("sizes", sizes);
    fields.field("padding", chosen.padding);
    fields.field("drop_remainder", chosen.drop_remainder);
    fields.field("pad_to_boundary", chosen.pad_to_boundary);
  }

  Function length = DatasetAccess::empty<Function>();
  std::vector<int64_t> boundaries;
  std::vector<int64_t> sizes;
  BucketOptions chosen;
};

class BucketCursor : public StageCursor<BucketNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    while (!ended_) {
      check_running(context_);
      Element element;
      ended_ = !input_->next(element);
      if (ended_) break;
      const size_t place = in_stage("BucketByLength", index_++, [&] { return bucket_of(element); });
      std::vector<Element>& bucket = buckets_[place];
      bucket.push_back(std::move(element));
      if (static_cast<int64_t>(bucket.size()) < node_.sizes[place]) continue;
      out = make(place);
      return true;
    }
    for (size_t place = 0; place < buckets_.size(); ++place) {
      if (buckets_[place].empty() || node_.chosen.drop_remainder) continue;
      out = make(place);
      return true;
    }
    return false;
  }

 private:
  size_t bucket_of(const Element& element) const {
    const auto length = node_.length(element).to<int64_t>();
    return static_cast<size_t>(std::ranges::upper_bound(node_.boundaries, length) -
                               node_.boundaries.begin());
  }

  Element make(size_t place) {
    const std::vector<Element> elements = std::exchange(buckets_[place], {});
    PaddedBatchOptions padding{.padding = node_.chosen.padding};
    if (node_.chosen.pad_to_boundary) padding.shapes = boundary_shapes(elements[0], place);
    return in_stage("BucketByLength", batches_++,
                    [&] { return pad_elements("BucketByLength", elements, padding); });
  }

  // Pads the first dimension to the largest length of the bucket.
  std::vector<Shape> boundary_shapes(const Element& like, size_t place) const {
    if (place == node_.boundaries.size()) {
      raise(Code::InvalidArgument,
            "[BucketByLength] with pad_to_boundary each element must be shorter than the last "
            "boundary, {}",
            node_.boundaries.back());
    }
    std::vector<Shape> shapes;
    for (const Tensor& tensor : tensors_of(like)) {
      Shape shape = tensor.shape();
      if (shape.rank() > 0) shape = shape.with(0, node_.boundaries[place] - 1);
      shapes.push_back(shape);
    }
    return shapes;
  }

  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.flag(ended_);
    for (size_t i = 0; i < buckets_.size(); ++i) fields.elements(buckets_[i], node_.sizes[i]);
  }

  std::vector<std::vector<Element>> buckets_ =
      std::vector<std::vector<Element>>(node_.sizes.size());
  int64_t index_ = 0;
  int64_t batches_ = 0;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Node> make_padded_batch() { return std::make_shared<PaddedBatchNode>(); }
std::shared_ptr<Node> make_bucket_by_length() { return std::make_shared<BucketNode>(); }

}  // namespace internal

Dataset Dataset::padded_batch(int64_t size, const PaddedBatchOptions& options) const {
  return internal::add_stage<internal::PaddedBatchNode>({node_}, [&](auto& node) {
    node.size = size;
    node.chosen = options;
  });
}

Dataset Dataset::bucket_by_length(Function length, std::vector<int64_t> boundaries,
                                  std::vector<int64_t> sizes, const BucketOptions& options) const {
  return internal::add_stage<internal::BucketNode>({node_}, [&](auto& node) {
    node.length = std::move(length);
    node.boundaries = std::move(boundaries);
    node.sizes = std::move(sizes);
    node.chosen = options;
  });
}

}  // namespace cohort::data
