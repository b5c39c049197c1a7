// flat_map and interleave: each element becomes a dataset. The datasets are read one after the
// other or in turns.

#include "data/auto_shard.h"
#include "data/common_description.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class InterleaveNode : public Stage<InterleaveNode, class InterleaveCursor> {
 public:
  InterleaveNode() { seed.emplace(); }
  std::string_view kind() const override { return flat ? "FlatMap" : "Interleave"; }
  NodeRole role() const override { return NodeRole::Expand; }
  const DatasetFunction* dataset_function() const override { return &function; }
  bool divides() const override { return hint_count > 0; }
  void fill_shard_hint(int64_t count, int64_t index) override {
    hint_count = count;
    hint_index = index;
  }
  Cardinality cardinality() const override { return unknown_unless_empty(input()); }
  void check() const override {
    check_at_least(kind(), "cycle", chosen.cycle, 1);
    check_at_least(kind(), "block", chosen.block, 1);
    check_threads(kind(), chosen.parallel);
  }
  void fields(Fields& fields) override {
    fields.field("function", function);
    fields.field("seed", *seed);
    fields.field("hint_count", hint_count);
    fields.field("hint_index", hint_index);
    if (flat) return;
    fields.field("cycle", chosen.cycle);
    fields.field("block", chosen.block);
    fields.field("parallel", chosen.parallel);
  }

  // Returns the dataset of an element. Seeds that its stages drew are replaced by numbers of
  // `seeds`, so that they are the same on all workers and after a saved position is restored.
  Dataset make(const Element& from, const Random& seeds) const {
    Dataset made = with_drawn_seeds(function(from), seeds);
    if (hint_count > 0) made = fill_shard_hints(made, hint_count, hint_index);
    return chosen.parallel == 1 ? made : made.prefetch();
  }

  DatasetFunction function = DatasetAccess::empty<DatasetFunction>();
  // Of shard(kShardHint, ...) in the datasets; 0: the hint is not filled in.
  int64_t hint_count = 0;
  int64_t hint_index = 0;
  InterleaveOptions chosen{.cycle = 1};
  bool flat = false;
};

class InterleaveCursor : public StageCursor<InterleaveNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    for (;;) {
      check_running(context_);
      if (!open_here()) return false;
      // An element that fails counts as one of this turn.
      ++taken_;
      bool found = true;
      const Status failure = capture_status([&] { found = slots_[at_]->cursor->next(out); });
      if (!found) slots_[at_].reset();
      if (!found || taken_ == node_.chosen.block) end_turn();
      throw_if_error(failure);
      if (found) return true;
    }
  }

 private:
  struct Open {
    int64_t index;
    Element from;  // the element that the dataset was made of
    NodePtr node;
    CursorPtr cursor;
  };

  void local_position(PositionFields& fields) override {
    epoch_.position(fields);
    if (fields.reading()) context_.set_epoch(node_, epoch_);
    fields.integer(index_);
    fields.flag(ended_);
    fields.index(at_, static_cast<size_t>(node_.chosen.cycle));
    fields.integer(taken_, 0, node_.chosen.block);
    fields.list(slots_, node_.chosen.cycle, [&](std::optional<Open>& slot) {
      bool is_open = slot.has_value();
      fields.flag(is_open);
      if (!is_open) return;
      int64_t index = slot ? slot->index : 0;
      Element from = slot ? slot->from : Element();
      fields.integer(index);
      fields.element(from);
      if (fields.reading()) slot = open(index, std::move(from));
      slot->cursor->position(fields);
    });
  }

  void end_turn() {
    taken_ = 0;
    ++at_;
  }

  // Moves to the next slot that has a dataset, and opens a dataset if the slot is empty. Returns
  // false when no dataset is left.
  bool open_here() {
    for (size_t empty = 0; empty <= slots_.size();) {
      if (at_ >= slots_.size()) {
        const bool room = static_cast<int64_t>(slots_.size()) < node_.chosen.cycle;
        if (room && !ended_) slots_.emplace_back();
        if (!room || ended_) at_ = 0;
        if (slots_.empty()) return false;
      }
      if (slots_[at_]) return true;
      Element from;
      if (!ended_) ended_ = !input_->next(from);
      if (!ended_) {
        const int64_t index = index_++;
        slots_[at_] = open(index, std::move(from));
        return true;
      }
      end_turn();
      ++empty;
    }
    return false;
  }

  Open open(int64_t index, Element from) const {
    return in_stage(node_.kind(), index, [&]() -> Open {
      const Random seeds({.seed = epoch_.seed, .iterator = index});
      const NodePtr node = DatasetAccess::node(node_.make(from, seeds));
      Random number({static_cast<uint64_t>(index), epoch_.iterator, epoch_.epoch});
      Context inside = context_;
      inside.iteration = std::make_shared<Iteration>(static_cast<int64_t>(number.next()));
      return {index, std::move(from), node, node->open(inside)};
    });
  }

  // The orders of shuffles in the datasets follow from the epoch.
  ShuffleEpoch epoch_ = context_.begin_epoch(node_);
  std::vector<std::optional<Open>> slots_;  // empty where a dataset has ended
  size_t at_ = 0;                           // the slot whose turn it is
  int64_t taken_ = 0;                       // elements of this turn
  int64_t index_ = 0;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Node> make_interleave() { return std::make_shared<InterleaveNode>(); }
std::shared_ptr<Node> make_flat_map() {
  auto node = std::make_shared<InterleaveNode>();
  node->flat = true;
  return node;
}

}  // namespace internal

Dataset Dataset::flat_map(DatasetFunction function) const {
  return internal::add_stage<internal::InterleaveNode>({node_}, [&](auto& node) {
    node.function = std::move(function);
    node.seed = internal::seed_or_drawn({});
    node.flat = true;
  });
}

Dataset Dataset::interleave(DatasetFunction function, const InterleaveOptions& options) const {
  return internal::add_stage<internal::InterleaveNode>({node_}, [&](auto& node) {
    node.function = std::move(function);
    node.seed = internal::seed_or_drawn({});
    node.chosen = options;
  });
}

}  // namespace cohort::data
