#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ShuffleNode : public Stage<ShuffleNode, class ShuffleCursor, PassThroughNode> {
 public:
  ShuffleNode() { seed.emplace(); }
  std::string_view kind() const override { return "Shuffle"; }
  bool shuffles() const override { return true; }
  void check() const override { check_at_least("Shuffle", "buffer", buffer, 1); }
  void fields(Fields& fields) override {
    fields.field("buffer", buffer);
    fields.field("seed", *seed);
    fields.field("reshuffle", reshuffle);
  }
  std::string details() const override { return fmt::format("({})", buffer); }

  int64_t buffer = 1;
  bool reshuffle = true;
};

// Holds up to `buffer` elements, or row numbers if the input has a table, and delivers one of them
// at random.
class ShuffleCursor : public StageCursor<ShuffleNode> {
 public:
  using StageCursor::StageCursor;

  const Table* table() const override { return input_->table(); }
  bool next(Element& out) override {
    if (table() != nullptr) return next_from_table(*this, out);
    return draw(elements_, out, [&](Element& held) { return input_->next(held); });
  }
  int64_t next_row() override {
    int64_t row = -1;
    draw(rows_, row, [&](int64_t& held) { return (held = input_->next_row()) >= 0; });
    return row;
  }

 private:
  template <typename T, typename Pull>
  bool draw(std::vector<T>& held, T& out, const Pull& pull) {
    while (!ended_ && static_cast<int64_t>(held.size()) < node_.buffer) {
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

  void local_position(PositionFields& fields) override {
    bool has_rows = table() != nullptr;
    epoch_.position(fields);
    random_.position(fields);
    if (fields.reading() && node_.reshuffle) context_.set_epoch(node_, epoch_);
    fields.flag(ended_);
    fields.flag(has_rows);
    if (has_rows != (table() != nullptr))
      raise_bad_state("the input of shuffle() is of another kind");
    if (!has_rows) return fields.elements(elements_, node_.buffer);
    fields.list(rows_, node_.buffer, [&](int64_t& row) {
      fields.integer(row, 0, INT64_MAX);
      if (row >= table()->count())
        raise_bad_state(fmt::format("row {} does not exist among {} rows", row, table()->count()));
    });
  }

  ShuffleEpoch epoch_ =
      node_.reshuffle ? context_.begin_epoch(node_) : ShuffleEpoch{.seed = node_.seed->value};
  Random random_{epoch_};
  std::vector<int64_t> rows_;
  std::vector<Element> elements_;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Node> make_shuffle() { return std::make_shared<ShuffleNode>(); }

}  // namespace internal

Dataset Dataset::shuffle(int64_t buffer, const ShuffleOptions& options) const {
  return internal::add_stage<internal::ShuffleNode>({node_}, [&](auto& node) {
    node.buffer = buffer;
    node.seed = internal::seed_or_drawn(options.seed);
    node.reshuffle = options.reshuffle_each_iteration;
  });
}

}  // namespace cohort::data
