// window(), and the datasets in memory that its elements are.

#include "data/window.h"

#include <algorithm>
#include <deque>
#include <new>

#include "base/memory_limit.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {

// All elements from the first to the last of a window are in memory. An element of one number takes
// 300 bytes, so that a longer span would take more than half of the memory.
int64_t max_window_span() {
  constexpr size_t kBytesPerElement = 512;
  return static_cast<int64_t>(cohort::internal::memory_limit() / kBytesPerElement);
}

namespace {

class WindowNode : public Stage<WindowNode, class WindowCursor> {
 public:
  std::string_view kind() const override { return "Window"; }
  NodeRole role() const override { return NodeRole::Transform; }
  Cardinality cardinality() const override {
    const Cardinality all = input().cardinality();
    if (!all.is_number()) return all;
    if (!chosen.drop_remainder) return number_of_batches(all, chosen.shift, false);
    return all < span() ? 0 : (all.count() - span()) / chosen.shift + 1;
  }
  // Number of input elements from the first to the last element of a window.
  int64_t span() const { return (size - 1) * chosen.stride + 1; }
  void check() const override {
    check_at_least("Window", "size", size, 1);
    check_at_least("Window", "shift", chosen.shift, 1);
    check_at_least("Window", "stride", chosen.stride, 1);
    int64_t unused = 0;
    if (__builtin_mul_overflow(size, chosen.stride, &unused)) {
      raise(Code::InvalidArgument,
            "[Window] size {} with stride {} spans more elements than fit into 64 bits", size,
            chosen.stride);
    }
    check_fits();
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("shift", chosen.shift);
    fields.field("stride", chosen.stride);
    fields.field("drop_remainder", chosen.drop_remainder);
  }
  std::string details() const override { return fmt::format("({})", size); }

  // The error of a window that would hold that many elements.
  [[noreturn]] void raise_too_long(Code code, int64_t held, int64_t possible) const {
    raise(code,
          "[Window] size {} with stride {} keeps {} elements in memory; at most {} are possible; "
          "use a smaller stride, or take every {}th element before the window",
          size, chosen.stride, held, possible, chosen.stride);
  }

  int64_t size = 1;
  WindowOptions chosen{.shift = 1};
  int64_t max_span = max_window_span();

 private:
  // A window never holds more elements than the input has.
  void check_fits() const {
    const Cardinality all = input().cardinality();
    if (all == kUnknownCardinality) return;
    const int64_t longest = all.is_number() ? std::min(all.count(), span()) : span();
    if (longest > max_span) raise_too_long(Code::InvalidArgument, longest, max_span);
  }
};

StructurePtr with_sequences(const Structure& structure, size_t count) {
  if (structure.kind == Structure::Kind::Leaf) return sequence_structure(count);
  std::vector<StructurePtr> parts;
  for (const StructurePtr& part : structure.parts) parts.push_back(with_sequences(*part, count));
  return structure.kind == Structure::Kind::Map ? map_structure(structure.names, std::move(parts))
                                                : tuple_structure(std::move(parts));
}

// Returns an element of the same structure, with a dataset in place of each tensor.
Element make_window_of(const std::vector<Element>& elements) {
  const Structure& structure = *structure_of(elements[0]);
  if (holds_sequences(structure)) {
    raise(
        Code::InvalidArgument,
        "windows of windows are not supported; make elements of the inner windows with flat_map()");
  }
  for (const Element& element : elements) {
    check_same_structure("Window", structure, *structure_of(element));
  }
  std::vector<Tensor> tensors;
  for (size_t leaf = 0; leaf < structure.leaves; ++leaf) {
    for (const Element& element : elements) tensors.push_back(tensors_of(element)[leaf]);
  }
  return ElementAccess::make(with_sequences(structure, elements.size()), std::move(tensors));
}

class WindowCursor : public StageCursor<WindowNode> {
 public:
  using StageCursor::StageCursor;

  // Elements may take more memory than max_window_span() assumes.
  bool next(Element& out) override {
    try {
      if (!exhausted_at_) return next_window(out);
    } catch (const std::bad_alloc&) {
      exhausted_at_ = static_cast<int64_t>(held_.size());
      held_.clear();  // the error's text needs memory
    }
    raise_exhausted();
  }

 private:
  bool next_window(Element& out) {
    drop_passed();
    const int64_t span = node_.span();
    while (static_cast<int64_t>(held_.size()) < span && !ended_) read();
    const bool full = static_cast<int64_t>(held_.size()) >= span;
    if (held_.empty() || (!full && node_.chosen.drop_remainder)) return false;
    std::vector<Element> chosen;
    const auto end = std::min(static_cast<int64_t>(held_.size()), span);
    for (int64_t i = 0; i < end; i += node_.chosen.stride) {
      chosen.push_back(held_[static_cast<size_t>(i)]);
    }
    passed_ = node_.chosen.shift;
    out = in_stage("Window", index_++, [&] { return make_window_of(chosen); });
    return true;
  }

  [[noreturn]] void raise_exhausted() const {
    node_.raise_too_long(Code::ResourceExhausted, node_.span(), *exhausted_at_);
  }

  void read() {
    check_running(context_);
    Element element;
    ended_ = !input_->next(element);
    if (ended_) return;
    // The node cannot know how many elements come if the input does not.
    const auto held = static_cast<int64_t>(held_.size()) + 1;
    if (held > node_.max_span) {
      node_.raise_too_long(Code::ResourceExhausted, held, node_.max_span);
    }
    held_.push_back(std::move(element));
  }

  // Moves to the start of the next window, which may lie after the end of the last window.
  void drop_passed() {
    while (passed_ > 0) {
      if (held_.empty() && ended_) passed_ = 0;
      if (held_.empty() && !ended_) read();
      if (held_.empty()) continue;
      held_.pop_front();
      --passed_;
    }
  }

  void local_position(PositionFields& fields) override {
    if (fields.reading()) exhausted_at_.reset();
    if (exhausted_at_) raise_exhausted();
    fields.integer(index_);
    fields.integer(passed_, 0, node_.chosen.shift);
    fields.flag(ended_);
    fields.elements(held_);
  }

  std::deque<Element> held_;
  int64_t passed_ = 0;  // input elements between the start of held_ and the next window
  int64_t index_ = 0;
  bool ended_ = false;
  std::optional<int64_t> exhausted_at_;  // how many elements held_ had when no memory was left
};

// The dataset that a part of a window is: tensors in memory, of any shapes.
class SequenceNode : public Stage<SequenceNode, class SequenceCursor> {
 public:
  std::string_view kind() const override { return "Sequence"; }
  Cardinality cardinality() const override { return static_cast<int64_t>(tensors().size()); }
  std::optional<ElementSpec> spec() const override {
    std::optional<ElementSpec> all;
    for (const Tensor& tensor : tensors()) {
      const ElementSpec one(TensorSpec{tensor.dtype(), tensor.shape()});
      all = all ? common(all, one) : one;
      if (!all) break;
    }
    return all;
  }
  NodeRole role() const override { return NodeRole::Source; }
  void check() const override {
    if (elements.is_dataset()) return;
    raise(Code::InvalidArgument, "[Element] a dataset was asked for, but the element is {}",
          to_string(*structure_of(elements)));
  }
  void fields(Fields& fields) override { fields.field("elements", elements); }
  const std::vector<Tensor>& tensors() const { return tensors_of(elements); }

  Element elements;
};

class SequenceCursor : public SourceCursor<SequenceNode> {
 public:
  using SourceCursor::SourceCursor;

  bool next(Element& out) override {
    if (at_ == node_.tensors().size()) return false;
    out = Element(node_.tensors()[at_++]);
    return true;
  }

 private:
  void local_position(PositionFields& fields) override {
    fields.index(at_, node_.tensors().size());
  }

  size_t at_ = 0;
};

}  // namespace

std::shared_ptr<Node> make_window() { return std::make_shared<WindowNode>(); }
std::shared_ptr<Node> make_sequence() { return std::make_shared<SequenceNode>(); }

Dataset window_within(int64_t max_span, const Dataset& input, int64_t size,
                      const WindowOptions& options) {
  return add_stage<WindowNode>({DatasetAccess::node(input)}, [&](auto& node) {
    node.max_span = max_span;
    node.size = size;
    node.chosen = options;
    if (options.shift == 0) node.chosen.shift = size;
  });
}

}  // namespace internal

Dataset Dataset::window(int64_t size, const WindowOptions& options) const {
  return internal::window_within(internal::max_window_span(), *this, size, options);
}

Dataset Element::dataset() const {
  return internal::add_stage<internal::SequenceNode>({},
                                                     [&](auto& node) { node.elements = *this; });
}

Element::operator Dataset() const { return dataset(); }

}  // namespace cohort::data
