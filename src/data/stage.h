#pragma once

// What most stages share.

#include "data/fields.h"
#include "data/node.h"

namespace cohort::data::internal {

// A cursor over one input.
class StageCursor : public Cursor {
 public:
  StageCursor(const Node& node, const Context& context)
      : node_(node), context_(context), input_(node.input().open(context)) {}

 protected:
  const Node& node_;
  const Context context_;
  CursorPtr input_;
};

// A cursor whose elements are those of its input, in another order or fewer: it passes on row
// numbers where the input has them. Derived classes say which input element comes next.
class SelectingCursor : public StageCursor {
 public:
  using StageCursor::StageCursor;
  const Table* table() const override { return input_->table(); }
};

// A cursor over rows of a table, which gets at elements by their number only.
inline bool next_from_table(Cursor& cursor, Element& out) {
  const int64_t row = cursor.next_row();
  if (row < 0) return false;
  out = cursor.table()->row(row);
  return true;
}

// The next element or row of `input`, whichever the caller wants.
struct Pull {
  Cursor& input;
  bool rows;
  Element element = {};
  int64_t row = -1;

  bool operator()() {
    if (rows) return (row = input.next_row()) >= 0;
    return input.next(element);
  }
};

// A stage that hands on its input's elements as they are.
template <typename Self>
class PassThroughNode : public NodeOf<Self> {
 public:
  std::optional<ElementSpec> spec() const override { return this->input().spec(); }
  NodeRole role() const override { return NodeRole::PassThrough; }
};

// Throws InvalidArgument unless value >= least.
void check_at_least(std::string_view stage, std::string_view what, int64_t value, int64_t least);

// What a predicate returned; throws InvalidArgument unless that is one bool.
bool to_bool(const Element& result);

// How many batches of `size` an input of that cardinality makes.
int64_t number_of_batches(int64_t cardinality, int64_t size, bool drop_remainder);

// The spec of a batch of elements of that spec; `size` may be unknown.
std::optional<ElementSpec> batched(const std::optional<ElementSpec>& spec, int64_t size);
// The reverse; nullopt when the elements have no first dimension.
std::optional<ElementSpec> unbatched(const std::optional<ElementSpec>& spec);
// What both say: equal dtypes and structure, unknown where sizes differ.
std::optional<ElementSpec> common(const std::optional<ElementSpec>& a,
                                  const std::optional<ElementSpec>& b);

// Number of threads that a stage's option asks for.
int thread_count(int parallel, const Context& context);

}  // namespace cohort::data::internal
