// flat_map and interleave: each element becomes a dataset, read one after the other or by turns.

#include "data/flat_map.h"

#include "data/auto_shard.h"
#include "data/common_description.h"
#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class InterleaveNode : public NodeOf<InterleaveNode> {
 public:
  InterleaveNode() { seed.emplace(); }
  std::string_view kind() const override { return flat ? "FlatMap" : "Interleave"; }
  NodeRole role() const override { return NodeRole::Expand; }
  const DatasetFunction* dataset_function() const override { return &function; }
  bool divides() const override { return hint_count > 0; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : kUnknownCardinality;
  }
  void check() const override {
    check_at_least(kind(), "cycle", cycle, 1);
    check_at_least(kind(), "block", block, 1);
    if (parallel != kAutotune) check_at_least(kind(), "number of threads", parallel, 1);
  }
  void fields(Fields& fields) override {
    fields.field("function", function);
    fields.field("seed", *seed);
    fields.field("hint_count", hint_count);
    fields.field("hint_index", hint_index);
    if (flat) return;
    fields.field("cycle", cycle);
    fields.field("block", block);
    fields.field("parallel", parallel);
  }

  // The dataset that belongs to an element. `seeds` takes the place of the seeds that its stages
  // drew, so that all workers have the same, and an iterator that goes on at a saved position.
  Dataset make(const Element& from, const Random& seeds) const {
    Dataset made = with_drawn_seeds(function(from), seeds);
    if (hint_count > 0) made = fill_shard_hints(made, hint_count, hint_index);
    return parallel == 1 ? made : made.prefetch();
  }
  // The order that begins now, from which the orders of shuffles in the datasets follow.
  ShuffleEpoch begin(const Context& context) const {
    return context.iteration->begin_epoch(context.walk(*this), seed->value, iterators_);
  }

  void restore(const Context& context, const ShuffleEpoch& epoch) const {
    context.iteration->set_epoch(context.walk(*this), epoch, iterators_);
  }

  DatasetFunction function = DatasetAccess::empty_dataset_function();
  int64_t hint_count = 0;  // what shard(kShardHint, ...) in the datasets means; 0: nothing
  int64_t hint_index = 0;
  int64_t cycle = 1;
  int64_t block = 1;
  int parallel = 1;
  bool flat = false;

 private:
  IteratorCount iterators_;
};

class InterleaveCursor : public StageCursor {
 public:
  InterleaveCursor(const InterleaveNode& node, const Context& context)
      : StageCursor(node, context), interleave_(node), epoch_(node.begin(context)) {}

  bool next(Element& out) override {
    for (;;) {
      check_running(context_);
      if (!open_here()) return false;
      // The turn goes on even when the element fails.
      ++taken_;
      bool found = true;
      const Status failure = capture_status([&] { found = slots_[at_]->cursor->next(out); });
      if (!found) slots_[at_].reset();
      if (!found || taken_ == interleave_.block) end_turn();
      throw_if_error(failure);
      if (found) return true;
    }
  }

  void save(StateWriter& state) override {
    state.stage(interleave_.kind());
    state.integer(static_cast<int64_t>(epoch_.seed));
    state.integer(epoch_.iterator);
    state.integer(epoch_.epoch);
    state.integer(index_);
    state.flag(ended_);
    state.integer(static_cast<int64_t>(at_));
    state.integer(taken_);
    state.integer(static_cast<int64_t>(slots_.size()));
    for (const std::optional<Open>& slot : slots_) {
      state.flag(slot.has_value());
      if (!slot) continue;
      state.integer(slot->index);
      state.element(slot->from);
      slot->cursor->save(state);
    }
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage(interleave_.kind());
    epoch_.seed = static_cast<uint64_t>(state.integer());
    epoch_.iterator = state.integer();
    epoch_.epoch = state.integer();
    interleave_.restore(context_, epoch_);
    index_ = state.integer();
    ended_ = state.flag();
    at_ = static_cast<size_t>(state.integer(0, interleave_.cycle));
    taken_ = state.integer(0, interleave_.block);
    const int64_t count = state.integer(0, interleave_.cycle);
    for (int64_t i = 0; i < count; ++i) {
      slots_.emplace_back();
      if (!state.flag()) continue;
      const int64_t index = state.integer();
      slots_.back() = open_in_stage(index, state.element());
      slots_.back()->cursor->restore(state);
    }
    input_->restore(state);
  }

 private:
  struct Open {
    int64_t index;
    Element from;  // what the dataset was made of
    NodePtr node;
    CursorPtr cursor;
  };

  void end_turn() {
    taken_ = 0;
    ++at_;
  }

  // Moves to the next place that has a dataset, opening one where a place is empty; false when
  // there is none left.
  bool open_here() {
    for (size_t empty = 0; empty <= slots_.size();) {
      if (at_ >= slots_.size()) {
        const bool room = static_cast<int64_t>(slots_.size()) < interleave_.cycle;
        if (room && !ended_) slots_.emplace_back();
        if (!room || ended_) at_ = 0;
        if (slots_.empty()) return false;
      }
      if (slots_[at_]) return true;
      Element from;
      if (!ended_) ended_ = !input_->next(from);
      if (!ended_) {
        const int64_t index = index_++;
        slots_[at_] = open_in_stage(index, std::move(from));
        return true;
      }
      end_turn();
      ++empty;
    }
    return false;
  }

  Open open_in_stage(int64_t index, Element from) const {
    return in_stage(interleave_.kind(), index, [&] { return open(index, std::move(from)); });
  }

  Open open(int64_t index, Element from) const {
    const Random seeds({.seed = epoch_.seed, .iterator = index});
    const NodePtr node = DatasetAccess::node(interleave_.make(from, seeds));
    Random number({static_cast<uint64_t>(index), epoch_.iterator, epoch_.epoch});
    Context inside = context_;
    inside.iteration = std::make_shared<Iteration>(static_cast<int64_t>(number.next()));
    return {index, std::move(from), node, node->open(inside)};
  }

  const InterleaveNode& interleave_;
  ShuffleEpoch epoch_;
  std::vector<std::optional<Open>> slots_;  // empty where a dataset has ended
  size_t at_ = 0;                           // whose turn it is
  int64_t taken_ = 0;                       // elements of this turn
  int64_t index_ = 0;
  bool ended_ = false;
};

CursorPtr InterleaveNode::open(const Context& context) const {
  return std::make_unique<InterleaveCursor>(*this, context);
}

}  // namespace

NodePtr with_hints(const Node& expand, int64_t count, int64_t index) {
  const std::shared_ptr<Node> copy = expand.clone();
  auto* node = dynamic_cast<InterleaveNode*>(copy.get());
  if (node == nullptr) return copy;
  node->hint_count = count;
  node->hint_index = index;
  return copy;
}

std::shared_ptr<Node> make_interleave() { return std::make_shared<InterleaveNode>(); }
std::shared_ptr<Node> make_flat_map() {
  auto node = std::make_shared<InterleaveNode>();
  node->flat = true;
  return node;
}

}  // namespace internal

Dataset Dataset::flat_map(DatasetFunction function) const {
  auto node = internal::stage_on<internal::InterleaveNode>(node_);
  node->function = std::move(function);
  node->seed = internal::seed_or_drawn({});
  node->flat = true;
  return internal::finish(node);
}

Dataset Dataset::interleave(DatasetFunction function, const InterleaveOptions& options) const {
  auto node = internal::stage_on<internal::InterleaveNode>(node_);
  node->function = std::move(function);
  node->seed = internal::seed_or_drawn({});
  node->cycle = options.cycle;
  node->block = options.block;
  node->parallel = options.parallel;
  return internal::finish(node);
}

}  // namespace cohort::data
