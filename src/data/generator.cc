#include <deque>
#include <mutex>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

// What a generator has begun to make.
struct BegunWalk {
  NextFunction next;
  std::vector<Element> made = {};  // so far; only while elements are looked at
  bool ended = false;              // `next` has told the end, so it is not called again
};

// The walks that a look at a first element began: the next iterator goes on with them, so that
// sources which cannot begin anew lose nothing.
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

class GeneratorNode : public NodeOf<GeneratorNode> {
 public:
  std::string_view kind() const override { return "Generator"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<ElementSpec> spec() const override { return elements; }
  NodeRole role() const override { return NodeRole::Source; }
  void fields(Fields& fields) override {
    fields.field("function", start);
    fields.field("elements", elements);
  }

  GeneratorFunction start = DatasetAccess::empty_generator();
  std::optional<ElementSpec> elements;
  const std::shared_ptr<LookedAt> looked_at = std::make_shared<LookedAt>();  // of copies too
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

class GeneratorCursor : public Cursor {
 public:
  GeneratorCursor(const GeneratorNode& node, Context context)
      : node_(node), context_(std::move(context)) {
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

  // A callable cannot be saved; it is called again as often as it was.
  void save(StateWriter& state) override {
    state.stage("Generator");
    state.integer(count_);
    state.flag(ended_);
  }
  void restore(StateReader& state) override {
    state.stage("Generator");
    const int64_t count = state.integer(0, INT64_MAX);
    ended_ = state.flag();
    for (; count_ < count && !ended_; ++count_) {
      check_running(context_);
      std::optional<Element> skipped;
      const Status failure = capture_status([&] { skipped = make(); });
      if (failure.ok() && !skipped) raise_bad_state("the generator makes fewer elements");
    }
    count_ = count;
  }

 private:
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

  const GeneratorNode& node_;
  const Context context_;
  BegunWalk walk_;
  size_t at_ = 0;  // in walk_.made
  int64_t count_ = 0;
  bool ended_ = false;
};

CursorPtr GeneratorNode::open(const Context& context) const {
  return std::make_unique<GeneratorCursor>(*this, context);
}

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
