#include <algorithm>
#include <deque>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

// A window is in memory as a whole, with what lies between its elements. More than this many
// elements of 64 bytes and more do not fit into any machine.
constexpr int64_t kMaxSpan = int64_t{1} << 30;

class WindowNode : public NodeOf<WindowNode> {
 public:
  std::string_view kind() const override { return "Window"; }
  NodeRole role() const override { return NodeRole::Transform; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (all < 0) return all;
    if (!drop_remainder) return all / shift + (all % shift != 0 ? 1 : 0);
    return all < span() ? 0 : (all - span()) / shift + 1;
  }
  // From the first element of a window to its last.
  int64_t span() const { return (size - 1) * stride + 1; }
  void check() const override {
    check_at_least("Window", "size", size, 1);
    check_at_least("Window", "shift", shift, 1);
    check_at_least("Window", "stride", stride, 1);
    int64_t unused = 0;
    if (__builtin_mul_overflow(size, stride, &unused)) {
      raise(Code::InvalidArgument, "[Window] size {} with stride {} is too long", size, stride);
    }
    check_fits();
  }
  void fields(Fields& fields) override {
    fields.field("size", size);
    fields.field("shift", shift);
    fields.field("stride", stride);
    fields.field("drop_remainder", drop_remainder);
  }
  std::string details() const override { return fmt::format("({})", size); }

  int64_t size = 1;
  int64_t shift = 1;
  int64_t stride = 1;
  bool drop_remainder = false;

 private:
  // A window that is longer than its input is as long as the input.
  void check_fits() const {
    const int64_t all = input().cardinality();
    if (all == kUnknownCardinality) return;
    const int64_t longest = all < 0 ? span() : std::min(all, span());
    if (longest <= kMaxSpan) return;
    raise(Code::InvalidArgument,
          "[Window] size {} with stride {} keeps {} elements in memory, at most {} are possible; "
          "use a smaller stride, or take every {}th element before the window",
          size, stride, longest, kMaxSpan, stride);
  }
};

StructurePtr with_sequences(const Structure& structure, size_t count) {
  if (structure.kind == Structure::Kind::Leaf) return sequence_structure(count);
  std::vector<StructurePtr> parts;
  for (const StructurePtr& part : structure.parts) parts.push_back(with_sequences(*part, count));
  return structure.kind == Structure::Kind::Map ? map_structure(structure.names, std::move(parts))
                                                : tuple_structure(std::move(parts));
}

// An element of the same structure, with a dataset in place of each tensor.
Element make_window_of(const std::vector<Element>& elements) {
  const Structure& structure = *structure_of(elements[0]);
  if (holds_sequences(structure)) {
    raise(Code::InvalidArgument,
          "windows of windows are not supported; make elements of the inner "
          "ones with flat_map()");
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

class WindowCursor : public StageCursor {
 public:
  WindowCursor(const WindowNode& node, const Context& context)
      : StageCursor(node, context), window_(node) {}

  bool next(Element& out) override {
    drop_passed();
    const int64_t span = window_.span();
    while (static_cast<int64_t>(held_.size()) < span && !ended_) read();
    const bool full = static_cast<int64_t>(held_.size()) >= span;
    if (held_.empty() || (!full && window_.drop_remainder)) return false;
    std::vector<Element> chosen;
    const auto end = std::min(static_cast<int64_t>(held_.size()), span);
    for (int64_t i = 0; i < end; i += window_.stride) {
      chosen.push_back(held_[static_cast<size_t>(i)]);
    }
    passed_ = window_.shift;
    out = in_stage("Window", index_++, [&] { return make_window_of(chosen); });
    return true;
  }
  void save(StateWriter& state) override {
    state.stage("Window");
    state.integer(index_);
    state.integer(passed_);
    state.flag(ended_);
    state.integer(static_cast<int64_t>(held_.size()));
    for (const Element& element : held_) state.element(element);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Window");
    index_ = state.integer();
    passed_ = state.integer(0, window_.shift);
    ended_ = state.flag();
    const int64_t count = state.integer(0, INT64_MAX);
    for (int64_t i = 0; i < count; ++i) held_.push_back(state.element());
    input_->restore(state);
  }

 private:
  void read() {
    check_running(context_);
    Element element;
    ended_ = !input_->next(element);
    if (!ended_) held_.push_back(std::move(element));
  }

  // Moves from the start of the last window to that of the next, which may lie behind its end.
  void drop_passed() {
    while (passed_ > 0) {
      if (held_.empty() && ended_) passed_ = 0;
      if (held_.empty() && !ended_) read();
      if (held_.empty()) continue;
      held_.pop_front();
      --passed_;
    }
  }

  const WindowNode& window_;
  std::deque<Element> held_;
  int64_t passed_ = 0;
  int64_t index_ = 0;
  bool ended_ = false;
};

CursorPtr WindowNode::open(const Context& context) const {
  return std::make_unique<WindowCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_window() { return std::make_shared<WindowNode>(); }

}  // namespace internal

Dataset Dataset::window(int64_t size, const WindowOptions& options) const {
  auto node = internal::stage_on<internal::WindowNode>(node_);
  node->size = size;
  node->shift = options.shift == 0 ? size : options.shift;
  node->stride = options.stride;
  node->drop_remainder = options.drop_remainder;
  return internal::finish(node);
}

}  // namespace cohort::data
