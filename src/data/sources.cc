// Sources whose elements are in memory, computed, or made by a function: rows of tensors, one
// element, a range of numbers, a generator.

#include <algorithm>
#include <deque>

#include "base/mutex.h"
#include "data/batch_rows.h"
#include "data/stage.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

// A source whose elements are the rows of a table.
class TableNode : public Node, public Table {
 public:
  int64_t count() const final { return cardinality().count(); }
  NodeRole role() const final { return NodeRole::Source; }
};

class TableCursor : public SourceCursor<TableNode> {
 public:
  using SourceCursor::SourceCursor;

  bool next(Element& out) override { return next_from_table(*this, out); }
  const Table* table() const override { return &node_; }
  int64_t next_row() override { return at_ < count_ ? at_++ : -1; }
  Block next_block(int64_t most) override {
    const int64_t begin = at_;
    at_ += std::min(most, count_ - at_);
    if (begin == at_) return {};
    return {at_ - begin, node_.slice(begin, at_)};
  }

 private:
  void local_position(PositionFields& fields) override { fields.integer(at_, 0, count_); }

  const int64_t count_ = node_.count();
  int64_t at_ = 0;
};

bool consecutive(std::span<const int64_t> indices) {
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] != indices[i - 1] + 1) return false;
  }
  return true;
}

class SlicesNode : public Stage<SlicesNode, TableCursor, TableNode> {
 public:
  std::string_view kind() const override { return "TensorSlices"; }
  Cardinality cardinality() const override { return tensors_of(tensors)[0].shape()[0]; }
  std::optional<ElementSpec> spec() const override { return unbatched(ElementSpec(tensors)); }
  void check() const override { batch_rows("TensorSlices", tensors); }
  void fields(Fields& fields) override { fields.field("tensors", tensors); }

  Element row(int64_t index) const override { return batch_row(tensors, index); }
  Element rows(std::span<const int64_t> indices) const override {
    if (consecutive(indices)) return slice(indices.front(), indices.back() + 1);
    return with_each_tensor(tensors,
                            [&](const Tensor& tensor) { return gather_rows(tensor, indices); });
  }
  Element slice(int64_t begin, int64_t end) const override {
    return batch_slice(tensors, begin, end);
  }

  Element tensors;
};

class TensorsNode : public Stage<TensorsNode, TableCursor, TableNode> {
 public:
  std::string_view kind() const override { return "Tensors"; }
  Cardinality cardinality() const override { return 1; }
  std::optional<ElementSpec> spec() const override { return ElementSpec(element); }
  void fields(Fields& fields) override { fields.field("element", element); }

  Element row(int64_t) const override { return element; }
  Element rows(std::span<const int64_t> indices) const override {
    return stack_elements("Batch", std::vector<Element>(indices.size(), element));
  }
  Element slice(int64_t begin, int64_t end) const override {
    return stack_elements("Batch", std::vector<Element>(static_cast<size_t>(end - begin), element));
  }

  Element element;
};

class RangeNode : public Stage<RangeNode, TableCursor, TableNode> {
 public:
  std::string_view kind() const override { return "Range"; }
  Cardinality cardinality() const override {
    const __int128 span = static_cast<__int128>(stop) - start;
    const __int128 toward = step > 0 ? span : -span;
    const __int128 width = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
    if (toward <= 0) return 0;
    const __int128 count = (toward + width - 1) / width;
    return static_cast<int64_t>(std::min<__int128>(count, INT64_MAX));
  }
  std::optional<ElementSpec> spec() const override { return ElementSpec(TensorSpec{kInt64, {}}); }
  void check() const override {
    if (step == 0) raise(Code::InvalidArgument, "[Range] the step must not be 0");
  }
  void fields(Fields& fields) override {
    fields.field("start", start);
    fields.field("stop", stop);
    fields.field("step", step);
  }
  std::string details() const override { return fmt::format("({}, {}, {})", start, stop, step); }

  Element row(int64_t index) const override { return Element(value(index)); }
  Element rows(std::span<const int64_t> indices) const override {
    auto made = cohort::internal::allocate_tensor(kInt64, {static_cast<int64_t>(indices.size())});
    auto* out = reinterpret_cast<int64_t*>(made.data);
    for (const int64_t index : indices) *out++ = value(index);
    return Element(made.tensor);
  }
  Element slice(int64_t begin, int64_t end) const override {
    auto made = cohort::internal::allocate_tensor(kInt64, {end - begin});
    auto* out = reinterpret_cast<int64_t*>(made.data);
    for (int64_t index = begin; index < end; ++index) *out++ = value(index);
    return Element(made.tensor);
  }

  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

 private:
  // Unsigned arithmetic, because the product may overflow although the sum does not.
  int64_t value(int64_t index) const {
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(index) * static_cast<uint64_t>(step));
  }
};

// A walk over the elements of a generator that has begun.
struct BegunWalk {
  NextFunction next;
  std::vector<Element> made = {};  // the elements so far, if an iterator only looks at them
  bool ended = false;              // `next` returned no element, so it is not called again
};

// Walks of iterators that only looked at the first element. Later iterators continue these walks,
// so that a source that cannot start again loses no element.
class LookedAt {
 public:
  std::optional<BegunWalk> take() {
    const std::lock_guard lock(mutex_);
    if (walks_.empty()) return std::nullopt;
    BegunWalk first = std::move(walks_.front());
    walks_.pop_front();
    return first;
  }
  void keep(BegunWalk walk) {
    const std::lock_guard lock(mutex_);
    walks_.push_back(std::move(walk));
  }

 private:
  cohort::internal::Mutex mutex_;
  std::deque<BegunWalk> walks_;
};

class GeneratorNode : public Stage<GeneratorNode, class GeneratorCursor> {
 public:
  std::string_view kind() const override { return "Generator"; }
  bool generates() const override { return true; }
  Cardinality cardinality() const override { return kUnknownCardinality; }
  std::optional<ElementSpec> spec() const override { return elements; }
  NodeRole role() const override { return NodeRole::Source; }
  void fields(Fields& fields) override {
    fields.field("function", start);
    fields.field("elements", elements);
  }

  GeneratorFunction start = DatasetAccess::empty<GeneratorFunction>();
  std::optional<ElementSpec> elements;
  const std::shared_ptr<LookedAt> looked_at = std::make_shared<LookedAt>();  // copies share it
};

void check_element(const Element& element, const ElementSpec& expected) {
  const ElementSpec found(element);
  const std::vector<TensorSpec> wanted = expected.tensors();
  bool right = *structure_of(found) == *structure_of(expected);
  for (size_t i = 0; right && i < wanted.size(); ++i) {
    const TensorSpec tensor = found.tensors()[i];
    right = tensor.dtype == wanted[i].dtype && tensor.shape.is_compatible_with(wanted[i].shape);
  }
  if (right) return;
  raise(Code::InvalidArgument, "the generator was declared to make {}, but made {}",
        expected.to_string(), found.to_string());
}

class GeneratorCursor : public SourceCursor<GeneratorNode> {
 public:
  GeneratorCursor(const GeneratorNode& node, const Context& context)
      : SourceCursor(node, context), context_(context) {
    std::optional<BegunWalk> begun = node.looked_at->take();
    walk_ = begun ? *std::move(begun)
                  : BegunWalk{in_stage("Generator", 0, [&] { return node.start(); })};
  }
  ~GeneratorCursor() override {
    if (context_.looks) node_.looked_at->keep(std::move(walk_));
  }

  bool next(Element& out) override {
    if (ended_) return false;
    check_running(context_);
    std::optional<Element> made = in_stage("Generator", count_++, [&] { return make(); });
    ended_ = !made;
    if (made) out = *std::move(made);
    return !ended_;
  }

 private:
  // The state of a callable cannot be saved. A new callable is called as often as the saved one
  // was.
  void local_position(PositionFields& fields) override {
    int64_t count = count_;
    fields.integer(count, 0, INT64_MAX);
    fields.flag(ended_);
    for (; count_ < count && !ended_; ++count_) {
      check_running(context_);
      std::optional<Element> skipped;
      const Status failure = capture_status([&] { skipped = make(); });
      if (failure.ok() && !skipped)
        raise_bad_state(
            fmt::format("the generator ends before element {}, where the position is", count));
    }
    count_ = count;
  }

  std::optional<Element> make() {
    if (at_ < walk_.made.size()) return walk_.made[at_++];
    if (walk_.ended) return std::nullopt;
    std::optional<Element> made = walk_.next();
    walk_.ended = !made;
    if (made && node_.elements) check_element(*made, *node_.elements);
    if (made && context_.looks) {
      walk_.made.push_back(*made);
      ++at_;
    }
    return made;
  }

  const Context context_;
  BegunWalk walk_;
  size_t at_ = 0;  // in walk_.made
  int64_t count_ = 0;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Node> make_tensor_slices() { return std::make_shared<SlicesNode>(); }
std::shared_ptr<Node> make_tensors() { return std::make_shared<TensorsNode>(); }
std::shared_ptr<Node> make_range() { return std::make_shared<RangeNode>(); }
std::shared_ptr<Node> make_generator() { return std::make_shared<GeneratorNode>(); }

}  // namespace internal

Dataset from_tensor_slices(Element element) {
  auto node = std::make_shared<internal::SlicesNode>();
  node->tensors = std::move(element);
  node->check();
  node->tensors = internal::in_row_order(node->tensors);
  return internal::DatasetAccess::make(node);
}

Dataset from_tensors(Element element) {
  return internal::add_stage<internal::TensorsNode>(
      {}, [&](auto& node) { node.element = std::move(element); });
}

Dataset range(int64_t stop) { return range(0, stop); }

Dataset range(int64_t start, int64_t stop, int64_t step) {
  return internal::add_stage<internal::RangeNode>({}, [&](auto& node) {
    node.start = start;
    node.stop = stop;
    node.step = step;
  });
}

Dataset generator(GeneratorFunction function) {
  return internal::add_stage<internal::GeneratorNode>(
      {}, [&](auto& node) { node.start = std::move(function); });
}

Dataset generator(GeneratorFunction function, ElementSpec elements) {
  return internal::add_stage<internal::GeneratorNode>({}, [&](auto& node) {
    node.start = std::move(function);
    node.elements = std::move(elements);
  });
}

}  // namespace cohort::data
