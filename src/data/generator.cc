#include <deque>
#include <mutex>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

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
  std::mutex mutex_;
  std::deque<BegunWalk> walks_;
};

class GeneratorCursor;
class GeneratorNode : public Stage<GeneratorNode, GeneratorCursor> {
 public:
  std::string_view kind() const override { return "Generator"; }
  int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<ElementSpec> spec() const override { return elements; }
  NodeRole role() const override { return NodeRole::Source; }
  void fields(Fields& fields) override {
    fields.field("function", start);
    fields.field("elements", elements);
  }

  GeneratorFunction start = DatasetAccess::empty_generator();
  std::optional<ElementSpec> elements;
  const std::shared_ptr<LookedAt> looked_at = std::make_shared<LookedAt>();  // copies share it
};

bool fits(const Shape& shape, const Shape& expected) {
  if (!expected.has_rank()) return true;
  if (shape.rank() != expected.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (expected[axis] >= 0 && shape[axis] != expected[axis]) return false;
  }
  return true;
}

void check_element(const Element& element, const ElementSpec& expected) {
  const ElementSpec found(element);
  const std::vector<TensorSpec> wanted = expected.tensors();
  bool right = *found.structure() == *expected.structure();
  for (size_t i = 0; right && i < wanted.size(); ++i) {
    const TensorSpec tensor = found.tensors()[i];
    right = tensor.dtype == wanted[i].dtype && fits(tensor.shape, wanted[i].shape);
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
      if (failure.ok() && !skipped) raise_bad_state("the generator makes fewer elements");
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

std::shared_ptr<Node> make_generator() { return std::make_shared<GeneratorNode>(); }

}  // namespace internal

Dataset generator(GeneratorFunction function) {
  auto node = std::make_shared<internal::GeneratorNode>();
  node->start = std::move(function);
  return internal::finish(node);
}

Dataset generator(GeneratorFunction function, ElementSpec elements) {
  auto node = std::make_shared<internal::GeneratorNode>();
  node->start = std::move(function);
  node->elements = std::move(elements);
  return internal::finish(node);
}

}  // namespace cohort::data
