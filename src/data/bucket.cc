#include <algorithm>

#include "data/padding.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class BucketNode : public NodeOf<BucketNode> {
 public:
  std::string_view kind() const override { return "BucketByLength"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : kUnknownCardinality;
  }
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
    check_padding("BucketByLength", {.values = padding});
  }
  void fields(Fields& fields) override {
    fields.field("length", length);
    fields.field("boundaries", boundaries);
    fields.field("sizes", sizes);
    fields.field("padding", padding);
    fields.field("drop_remainder", drop_remainder);
    fields.field("pad_to_boundary", pad_to_boundary);
  }

  Function length = DatasetAccess::empty_function();
  std::vector<int64_t> boundaries;
  std::vector<int64_t> sizes;
  std::vector<Tensor> padding;
  bool drop_remainder = false;
  bool pad_to_boundary = false;
};

class BucketCursor : public StageCursor {
 public:
  BucketCursor(const BucketNode& node, const Context& context)
      : StageCursor(node, context), bucket_(node), buckets_(node.sizes.size()) {}

  bool next(Element& out) override {
    while (!ended_) {
      check_running(context_);
      Element element;
      ended_ = !input_->next(element);
      if (ended_) break;
      const size_t place = in_stage("BucketByLength", index_++, [&] { return bucket_of(element); });
      std::vector<Element>& bucket = buckets_[place];
      bucket.push_back(std::move(element));
      if (static_cast<int64_t>(bucket.size()) < bucket_.sizes[place]) continue;
      out = make(place);
      return true;
    }
    for (size_t place = 0; place < buckets_.size(); ++place) {
      if (buckets_[place].empty() || bucket_.drop_remainder) continue;
      out = make(place);
      return true;
    }
    return false;
  }
  void save(StateWriter& state) override {
    state.stage("BucketByLength");
    state.integer(index_);
    state.flag(ended_);
    for (const auto& bucket : buckets_) {
      state.integer(static_cast<int64_t>(bucket.size()));
      for (const Element& element : bucket) state.element(element);
    }
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("BucketByLength");
    index_ = state.integer();
    ended_ = state.flag();
    for (size_t place = 0; place < buckets_.size(); ++place) {
      const int64_t count = state.integer(0, bucket_.sizes[place]);
      for (int64_t i = 0; i < count; ++i) buckets_[place].push_back(state.element());
    }
    input_->restore(state);
  }

 private:
  size_t bucket_of(const Element& element) const {
    const auto length = bucket_.length(element).to<int64_t>();
    return static_cast<size_t>(std::ranges::upper_bound(bucket_.boundaries, length) -
                               bucket_.boundaries.begin());
  }

  Element make(size_t place) {
    const std::vector<Element> elements = std::exchange(buckets_[place], {});
    Padding padding{.values = bucket_.padding};
    if (bucket_.pad_to_boundary) padding.shapes = boundary_shapes(elements[0], place);
    return in_stage("BucketByLength", batches_++,
                    [&] { return pad_elements("BucketByLength", elements, padding); });
  }

  // Sizes that are padded at all become the largest that the bucket can hold.
  std::vector<Shape> boundary_shapes(const Element& like, size_t place) const {
    if (place == bucket_.boundaries.size()) {
      raise(Code::InvalidArgument,
            "[BucketByLength] an element is longer than the last boundary, {}, so there is nothing "
            "to pad it to",
            bucket_.boundaries.back());
    }
    std::vector<Shape> shapes;
    for (const Tensor& tensor : tensors_of(like)) {
      Shape shape = tensor.shape();
      if (shape.rank() > 0) shape = shape.with(0, bucket_.boundaries[place] - 1);
      shapes.push_back(shape);
    }
    return shapes;
  }

  const BucketNode& bucket_;
  std::vector<std::vector<Element>> buckets_;
  int64_t index_ = 0;
  int64_t batches_ = 0;
  bool ended_ = false;
};

CursorPtr BucketNode::open(const Context& context) const {
  return std::make_unique<BucketCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_bucket_by_length() { return std::make_shared<BucketNode>(); }

}  // namespace internal

Dataset Dataset::bucket_by_length(Function length, std::vector<int64_t> boundaries,
                                  std::vector<int64_t> sizes, const BucketOptions& options) const {
  auto node = internal::stage_on<internal::BucketNode>(node_);
  node->length = std::move(length);
  node->boundaries = std::move(boundaries);
  node->sizes = std::move(sizes);
  node->padding = options.padding;
  node->drop_remainder = options.drop_remainder;
  node->pad_to_boundary = options.pad_to_boundary;
  return internal::finish(node);
}

}  // namespace cohort::data
