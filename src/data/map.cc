// Stages that make one element of each element of their input: map, and scan and enumerate, which
// carry state from element to element.

#include <algorithm>

#include "data/batch_rows.h"
#include "data/parallel_queue.h"
#include "data/stage.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

// Whether a function of numbers and rows can run on elements of that spec without tensors.
bool fits(const RowFunction& function, const ElementSpec& spec) {
  const std::vector<TensorSpec> tensors = spec.tensors();
  if (tensors.size() != function.arguments.size()) return false;
  if (structure_of(spec)->kind == Structure::Kind::Map) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const RowFunction::Slot& slot = function.arguments[i];
    if (tensors[i].dtype != slot.dtype || !tensors[i].shape.has_rank()) return false;
    if (slot.elements == -1 && tensors[i].shape.rank() != 0) return false;
  }
  return true;
}

Shape result_shape(const RowFunction::Slot& slot) {
  return slot.elements < 0 ? Shape{} : Shape{slot.elements};
}

class MapNode : public NodeOf<MapNode> {
 public:
  std::string_view kind() const override { return "Map"; }
  NodeRole role() const override { return NodeRole::Transform; }
  const Function* element_function() const override { return &function; }
  CursorPtr open(const Context& context) const override;
  Cardinality cardinality() const override { return input().cardinality(); }
  std::optional<ElementSpec> spec() const override {
    const RowFunction* rows = row_function();
    if (rows == nullptr) return std::nullopt;
    std::vector<TensorSpec> results;
    for (const RowFunction::Slot& slot : rows->results) {
      results.push_back({slot.dtype, result_shape(slot)});
    }
    return make_spec(result_structure(*rows), std::move(results));
  }
  void check() const override { check_threads("Map", chosen.parallel); }
  void fields(Fields& fields) override {
    fields.field("function", function);
    fields.field("parallel", chosen.parallel);
    fields.field("deterministic", chosen.deterministic);
    fields.field("name", chosen.name);
  }

  // Returns the function on rows if it fits the input's elements, else null.
  const RowFunction* row_function() const {
    const RowFunction* rows = DatasetAccess::rows(function);
    if (rows == nullptr) return nullptr;
    const std::optional<ElementSpec> before = input().spec();
    return before && fits(*rows, *before) ? rows : nullptr;
  }
  static StructurePtr result_structure(const RowFunction& rows) {
    if (!rows.result_is_tuple) return leaf_structure();
    return tuple_structure(std::vector(rows.results.size(), leaf_structure()));
  }

  Function function = DatasetAccess::empty<Function>();
  MapOptions chosen;
};

constexpr int64_t kAheadBlocks = 16;
constexpr int64_t kAheadBytes = 64 << 10;

class MapCursor : public StageCursor<MapNode> {
 public:
  MapCursor(const MapNode& node, const Context& context)
      : StageCursor(node, context), rows_(input_->has_blocks() ? node.row_function() : nullptr) {
    if (rows_ == nullptr) return;
    structure_ = MapNode::result_structure(*rows_);
    int64_t bytes = 0;
    for (const RowFunction::Slot& slot : rows_->results) {
      bytes += size_of(slot.dtype) * std::max<int64_t>(1, slot.elements);
    }
    ahead_rows_ = kAheadBytes / bytes;
  }

  bool next(Element& out) override {
    if (ready_.count > 0 || rest_.count > 0 || !failure_.ok()) return next_of_block(out);
    check_running(context_);
    Element before;
    if (!input_->next(before)) return false;
    out = in_stage(node_.chosen.name, index_++, [&] { return node_.function(before); });
    return true;
  }

  bool has_blocks() const override { return rows_ != nullptr; }
  // Computes more rows than the caller asks for, if the rows are small, and returns them in parts.
  // That spreads the fixed cost of a block over several calls.
  Block next_block(int64_t most) override {
    check_running(context_);
    if (ready_.count == 0) {
      if (!failure_.ok()) raise_in_stage(node_.chosen.name, index_++, std::exchange(failure_, {}));
      const int64_t wanted =
          most >= ahead_rows_ ? most : std::min(kAheadBlocks * most, ahead_rows_);
      Block before = take_rest(wanted);
      if (before.count == 0) before = input_->next_block(wanted);
      if (before.count == 0) return {};
      ready_ = run_rows(before);
      ready_at_ = 0;
    }
    return take_ready(most);
  }

 private:
  bool next_of_block(Element& out) {
    Block one = next_block(1);
    if (one.count == 0) return false;
    out = batch_row(one.rows, 0);
    return true;
  }

  Block take_ready(int64_t most) {
    const int64_t count = std::min(most, ready_.count);
    Block front{count, batch_slice(ready_.rows, ready_at_, ready_at_ + count)};
    ready_at_ += count;
    ready_.count -= count;
    return front;
  }

  Block take_rest(int64_t most) {
    if (rest_.count <= most) return std::exchange(rest_, {});
    Block front{most, batch_slice(rest_.rows, 0, most)};
    rest_ = {rest_.count - most, batch_slice(rest_.rows, most, rest_.count)};
    return front;
  }

  // Rows before a row that throws are delivered first. The failure and the rows after it wait for
  // later calls.
  Block run_rows(const Block& before) {
    std::vector<RowFunction::Column> in;
    for (const Tensor& tensor : tensors_of(before.rows)) {
      in.push_back({raw_bytes(tensor).data(), row_elements(tensor.shape())});
    }
    std::vector<Tensor> results;
    std::vector<void*> out;
    for (const RowFunction::Slot& slot : rows_->results) {
      auto made = cohort::internal::allocate_tensor(
          slot.dtype, result_shape(slot).with_inserted(0, before.count));
      results.push_back(std::move(made.tensor));
      out.push_back(made.data);
    }
    const int64_t done = rows_->run(in.data(), before.count, out.data(), failure_);
    index_ += done;
    Block after{done, ElementAccess::make(structure_, std::move(results))};
    if (done == before.count) return after;
    if (done + 1 < before.count) {
      rest_ = {before.count - done - 1, batch_slice(before.rows, done + 1, before.count)};
    }
    if (done == 0) raise_in_stage(node_.chosen.name, index_++, std::exchange(failure_, {}));
    after.rows = batch_slice(after.rows, 0, done);
    return after;
  }

  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.status(failure_);
    if (ready_.count > 0) {
      ready_.rows = batch_slice(ready_.rows, ready_at_, ready_at_ + ready_.count);
      ready_at_ = 0;
    }
    visit_block(fields, ready_);
    visit_block(fields, rest_);
    if (ready_.count > 0 && (rows_ == nullptr || !(*structure_of(ready_.rows) == *structure_))) {
      raise_bad_state("the function returns elements of another structure");
    }
    if (rest_.count > 0 && rows_ == nullptr) raise_bad_state("the function is of another kind");
  }

  static void visit_block(PositionFields& fields, Block& block) {
    fields.integer(block.count, 0, INT64_MAX);
    if (block.count == 0) return;
    fields.element(block.rows);
    if (batch_rows("Restore", block.rows) != block.count) raise_bad_state("rows are missing");
  }

  const RowFunction* rows_;  // null: one element at a time
  StructurePtr structure_;
  int64_t index_ = 0;
  Block ready_;  // computed rows; the count is that of rows not yet delivered
  int64_t ready_at_ = 0;
  Status failure_;  // of the row after ready_
  Block rest_;      // the input after that row
  int64_t ahead_rows_ = 0;
};

class ParallelMapCursor : public ParallelCursor<MapNode> {
 public:
  ParallelMapCursor(const MapNode& node, const Context& context, int threads)
      : ParallelCursor(node, context, "ParallelMap",
                       {.threads = threads,
                        .capacity = 2 * threads,
                        .max_capacity = 2 * threads,
                        .ordered = context.keeps_order(node.chosen.deterministic),
                        .name = "map"}) {
    queue_.set_pull([this](Element&, ParallelQueue::Work& work) {
      Element before;
      if (!input_->next(before)) return false;
      work = [&node = node_, index = index_++, before = std::move(before)] {
        return in_stage(node.chosen.name, index, [&] { return node.function(before); });
      };
      return true;
    });
  }
  ~ParallelMapCursor() override { queue_.finish(); }

 private:
  void local_position(PositionFields& fields) override { fields.integer(index_); }

  int64_t index_ = 0;
};

CursorPtr MapNode::open(const Context& context) const {
  const int threads = thread_count(chosen.parallel, context);
  if (threads == 1) return std::make_unique<MapCursor>(*this, context);
  return std::make_unique<ParallelMapCursor>(*this, context, threads);
}

class ScanNode : public Stage<ScanNode, class ScanCursor> {
 public:
  std::string_view kind() const override { return "Scan"; }
  Cardinality cardinality() const override { return input().cardinality(); }
  void fields(Fields& fields) override {
    fields.field("initial", initial);
    fields.field("function", function);
  }

  Element initial;
  Function function = DatasetAccess::empty<Function>();
};

class ScanCursor : public StageCursor<ScanNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    Element element;
    if (!input_->next(element)) return false;
    const Element both = in_stage("Scan", index_++, [&] {
      Element result = node_.function(Element::tuple(std::vector<Element>{state_, element}));
      if (!result.is_tuple() || result.size() != 2) {
        raise(Code::InvalidArgument, "the function must return (new state, output), got {}",
              to_string(*structure_of(result)));
      }
      return result;
    });
    state_ = both[0];
    out = both[1];
    return true;
  }

 private:
  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.element(state_);
  }

  Element state_ = node_.initial;
  int64_t index_ = 0;
};

class EnumerateNode : public Stage<EnumerateNode, class EnumerateCursor> {
 public:
  std::string_view kind() const override { return "Enumerate"; }
  Cardinality cardinality() const override { return input().cardinality(); }
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> part = input().spec();
    if (!part) return std::nullopt;
    std::vector<TensorSpec> tensors = part->tensors();
    tensors.insert(tensors.begin(), TensorSpec{kInt64, {}});
    return make_spec(tuple_structure({leaf_structure(), structure_of(*part)}), std::move(tensors));
  }
  void fields(Fields& fields) override { fields.field("start", start); }

  int64_t start = 0;
};

class EnumerateCursor : public StageCursor<EnumerateNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    Element element;
    const int64_t number = number_++;  // also that of an element that fails
    if (!input_->next(element)) {
      number_ = number;
      return false;
    }
    out = Element::tuple(std::vector<Element>{Element(number), std::move(element)});
    return true;
  }

 private:
  void local_position(PositionFields& fields) override { fields.integer(number_); }

  int64_t number_ = node_.start;
};

}  // namespace

std::shared_ptr<Node> make_map() { return std::make_shared<MapNode>(); }
std::shared_ptr<Node> make_scan() { return std::make_shared<ScanNode>(); }
std::shared_ptr<Node> make_enumerate() { return std::make_shared<EnumerateNode>(); }

}  // namespace internal

Dataset Dataset::map(Function function, const MapOptions& options) const {
  return internal::add_stage<internal::MapNode>({node_}, [&](auto& node) {
    node.function = std::move(function);
    node.chosen = options;
  });
}

Dataset Dataset::scan(Element initial_state, Function function) const {
  return internal::add_stage<internal::ScanNode>({node_}, [&](auto& node) {
    node.initial = std::move(initial_state);
    node.function = std::move(function);
  });
}

Dataset Dataset::enumerate(int64_t start) const {
  return internal::add_stage<internal::EnumerateNode>({node_},
                                                      [&](auto& node) { node.start = start; });
}

}  // namespace cohort::data
