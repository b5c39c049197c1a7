#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ShuffleNode : public PassThroughNode<ShuffleNode> {
 public:
  ShuffleNode() { seed.emplace(); }
  std::string_view kind() const override { return "Shuffle"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return input().cardinality(); }
  void check() const override { check_at_least("Shuffle", "buffer", buffer, 1); }
  void fields(Fields& fields) override {
    fields.field("buffer", buffer);
    fields.field("seed", *seed);
    fields.field("reshuffle", reshuffle);
  }
  std::string details() const override { return fmt::format("({})", buffer); }

  // The order that begins now.
  ShuffleEpoch begin(const Context& context) const {
    if (!reshuffle) return {.seed = seed->value};
    return context.iteration->begin_epoch(context.walk(*this), seed->value, iterators_);
  }

  void restore(const Context& context, const ShuffleEpoch& epoch) const {
    if (reshuffle) context.iteration->set_epoch(context.walk(*this), epoch, iterators_);
  }

  int64_t buffer = 1;
  bool reshuffle = true;

 private:
  IteratorCount iterators_;
};

// Holds up to `buffer` elements, or row numbers where the input has rows, and hands on any of them.
class ShuffleCursor : public SelectingCursor {
 public:
  ShuffleCursor(const ShuffleNode& node, const Context& context)
      : SelectingCursor(node, context),
        shuffle_(node),
        epoch_(node.begin(context)),
        random_(epoch_) {}

  bool next(Element& out) override {
    if (table() != nullptr) return next_from_table(*this, out);
    return draw(elements_, out, [&](Element& held) { return input_->next(held); });
  }
  int64_t next_row() override {
    int64_t row = -1;
    draw(rows_, row, [&](int64_t& held) { return (held = input_->next_row()) >= 0; });
    return row;
  }

  void save(StateWriter& state) override {
    state.stage("Shuffle");
    state.integer(static_cast<int64_t>(epoch_.seed));
    state.integer(epoch_.iterator);
    state.integer(epoch_.epoch);
    state.integer(static_cast<int64_t>(random_.state()));
    state.flag(ended_);
    state.flag(table() != nullptr);
    state.integer(static_cast<int64_t>(rows_.size() + elements_.size()));
    for (const int64_t row : rows_) state.integer(row);
    for (const Element& element : elements_) state.element(element);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Shuffle");
    epoch_.seed = static_cast<uint64_t>(state.integer());
    epoch_.iterator = state.integer();
    epoch_.epoch = state.integer();
    random_ = Random(static_cast<uint64_t>(state.integer()));
    shuffle_.restore(context_, epoch_);
    ended_ = state.flag();
    if (state.flag() != (table() != nullptr)) raise_bad_state("the shuffle's input is different");
    const int64_t count = state.integer(0, shuffle_.buffer);
    for (int64_t i = 0; i < count; ++i) {
      if (table() != nullptr) {
        rows_.push_back(state.integer(0, INT64_MAX));
      } else {
        elements_.push_back(state.element());
      }
    }
    input_->restore(state);
    check_rows();
  }

 private:
  template <typename T, typename Pull>
  bool draw(std::vector<T>& held, T& out, const Pull& pull) {
    while (!ended_ && static_cast<int64_t>(held.size()) < shuffle_.buffer) {
      check_running(context_);
      T next{};
      ended_ = !pull(next);
      if (!ended_) held.push_back(std::move(next));
    }
    if (held.empty()) return false;
    T& drawn = held[static_cast<size_t>(random_.below(static_cast<int64_t>(held.size())))];
    out = std::move(drawn);
    if (&drawn != &held.back()) drawn = std::move(held.back());
    held.pop_back();
    return true;
  }

  void check_rows() const {
    for (const int64_t row : rows_) {
      if (row >= table()->count()) raise_bad_state("a row that does not exist");
    }
  }

  const ShuffleNode& shuffle_;
  ShuffleEpoch epoch_;
  Random random_;
  std::vector<int64_t> rows_;
  std::vector<Element> elements_;
  bool ended_ = false;
};

CursorPtr ShuffleNode::open(const Context& context) const {
  return std::make_unique<ShuffleCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_shuffle() { return std::make_shared<ShuffleNode>(); }

}  // namespace internal

Dataset Dataset::shuffle(int64_t buffer, const ShuffleOptions& options) const {
  auto node = internal::stage_on<internal::ShuffleNode>(node_);
  node->buffer = buffer;
  node->seed = internal::seed_or_drawn(options.seed);
  node->reshuffle = options.reshuffle_each_iteration;
  return internal::finish(node);
}

}  // namespace cohort::data
