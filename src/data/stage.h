#pragma once

// Base classes for the two halves of a stage: the node that describes it and the cursor that walks
// over its elements. take() in take_skip_filter.cc is a short example.

#include "data/node.h"

namespace cohort::data::internal {

// A node that can be copied.
template <typename Self, typename Base = Node>
class NodeOf : public Base {
 public:
  std::shared_ptr<Node> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
};

// A node whose elements a `CursorType` makes. That class may be defined later in the file.
template <typename Self, typename CursorType, typename Base = Node>
class Stage : public NodeOf<Self, Base> {
 public:
  CursorPtr open(const Context& context) const override {
    return std::make_unique<CursorType>(static_cast<const Self&>(*this), context);
  }
};

// A stage that passes on elements of its input unchanged.
class PassThroughNode : public Node {
 public:
  Cardinality cardinality() const override { return input().cardinality(); }
  std::optional<ElementSpec> spec() const override { return input().spec(); }
  NodeRole role() const override { return NodeRole::PassThrough; }
};

// A cursor of an `N` without inputs. It keeps no Context, because stages such as repeat open many
// cursors, and copying a Context takes longer than the rest.
template <typename N>
class SourceCursor : public Cursor {
 public:
  SourceCursor(const N& node, const Context& /*context*/) : node_(node) {}
  void position(PositionFields& fields) override {
    fields.stage(node_.kind());
    local_position(fields);
  }

 protected:
  // Goes over the position of this cursor, without those of its inputs.
  virtual void local_position(PositionFields& fields) = 0;

  const N& node_;
};

// A cursor of an `N` with one input.
template <typename N>
class StageCursor : public SourceCursor<N> {
 public:
  StageCursor(const N& node, const Context& context)
      : SourceCursor<N>(node, context), context_(context), input_(node.input().open(context)) {}
  void position(PositionFields& fields) final {
    SourceCursor<N>::position(fields);
    input_->position(fields);
  }

 protected:
  const Context context_;
  CursorPtr input_;
};

// Implements next() for a cursor that has a table.
inline bool next_from_table(Cursor& cursor, Element& out) {
  const int64_t row = cursor.next_row();
  if (row < 0) return false;
  out = cursor.table()->row(row);
  return true;
}

// Takes the next element of `input` to `element`, or its next row number if `element` is null.
struct Pull {
  CursorPtr& input;
  Element* element;
  int64_t row = -1;

  bool operator()() {
    if (element == nullptr) return (row = input->next_row()) >= 0;
    return input->next(*element);
  }
};

// A cursor that selects elements of its input, or row numbers if the input has a table. `Self` has
// a function bool select(Pull& pull), which pulls until it has found the next one, and returns
// false at the end.
template <typename Self, typename N>
class SelectingCursor : public StageCursor<N> {
 public:
  using StageCursor<N>::StageCursor;
  bool next(Element& out) final {
    Pull pull{this->input_, &out};
    return static_cast<Self*>(this)->select(pull);
  }
  const Table* table() const final { return this->input_->table(); }
  int64_t next_row() final {
    Pull pull{this->input_, nullptr};
    return static_cast<Self*>(this)->select(pull) ? pull.row : -1;
  }
};

// Throws InvalidArgument unless value >= least.
void check_at_least(std::string_view stage, std::string_view what, int64_t value, int64_t least);
// The same for a number that may also be kAutotune, such as a number of threads.
void check_autotuned(std::string_view stage, std::string_view what, IntOrAutotune value, int least);
void check_threads(std::string_view stage, IntOrAutotune parallel);

// Returns the cardinality of a stage of which only this much is known: without input, it is empty.
inline Cardinality unknown_unless_empty(const Node& input) {
  return input.cardinality() == 0 ? Cardinality(0) : kUnknownCardinality;
}
// Returns how many batches of `size` an input of that cardinality makes.
Cardinality number_of_batches(Cardinality all, int64_t size, bool drop_remainder);

// Returns the spec of a batch of elements of that spec; `size` may be unknown.
std::optional<ElementSpec> batched(const std::optional<ElementSpec>& spec, int64_t size);
// The reverse; nullopt when the elements have no first dimension.
std::optional<ElementSpec> unbatched(const std::optional<ElementSpec>& spec);
// Returns the spec that elements of both specs satisfy: sizes that differ become unknown. nullopt
// if dtypes or structures differ.
std::optional<ElementSpec> common(const std::optional<ElementSpec>& a,
                                  const std::optional<ElementSpec>& b);

// Returns the number of threads that the option of a stage asks for.
int thread_count(IntOrAutotune parallel, const Context& context);

}  // namespace cohort::data::internal
