#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class GeneratorCursor : public Cursor {
 public:
  GeneratorCursor(const GeneratorFunction& start, Context context)
      : context_(std::move(context)), next_(in_stage("Generator", 0, [&] { return start(); })) {}

  bool next(Element& out) override {
    if (ended_) return false;
    check_running(context_);
    std::optional<Element> made = in_stage("Generator", count_++, [&] { return next_(); });
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
      const Status failure = capture_status([&] { skipped = next_(); });
      if (failure.ok() && !skipped) raise_bad_state("the generator makes fewer elements");
    }
    count_ = count;
  }

 private:
  const Context context_;
  NextFunction next_;
  int64_t count_ = 0;
  bool ended_ = false;
};

class GeneratorNode : public NodeOf<GeneratorNode> {
 public:
  std::string_view kind() const override { return "Generator"; }
  CursorPtr open(const Context& context) const override {
    return std::make_unique<GeneratorCursor>(start, context);
  }
  int64_t cardinality() const override { return kUnknownCardinality; }
  NodeRole role() const override { return NodeRole::Source; }
  void fields(Fields& fields) override { fields.field("function", start); }

  GeneratorFunction start = DatasetAccess::empty_generator();
};

}  // namespace

std::shared_ptr<Node> make_generator() { return std::make_shared<GeneratorNode>(); }

}  // namespace internal

Dataset generator(GeneratorFunction function) {
  auto node = std::make_shared<internal::GeneratorNode>();
  node->start = std::move(function);
  return internal::finish(node);
}

}  // namespace cohort::data
