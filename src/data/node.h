#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"
#include "cohort/dataset.h"
#include "data/element_access.h"
#include "data/iteration.h"
#include "data/iterator_position.h"

namespace cohort::data::internal {

// The number of elements where each element of a dataset becomes `factor` elements.
inline Cardinality times(Cardinality cardinality, int64_t factor) {
  if (!cardinality.is_number()) return cardinality;
  int64_t product = 0;
  return __builtin_mul_overflow(cardinality.count(), factor, &product) ? INT64_MAX : product;
}

using cohort::internal::raise;

// Several elements side by side: they are the rows of each tensor.
struct Block {
  int64_t count = 0;  // 0: no more elements
  Element rows;
};

// Elements that are rows of tensors in memory. Stages can pass on row numbers instead of elements,
// so that a batch is copied only once.
class Table {
 public:
  virtual ~Table() = default;
  virtual int64_t count() const = 0;
  virtual Element row(int64_t index) const = 0;
  virtual Element rows(std::span<const int64_t> indices) const = 0;
  // Neighbouring rows [begin, end).
  virtual Element slice(int64_t begin, int64_t end) const = 0;
};

// Walks over the elements of a node. One thread at a time uses a cursor; a stage with threads of
// its own ensures that.
class Cursor {
 public:
  virtual ~Cursor() = default;

  // Returns false at the end, also when called again. After an error, the next call continues after
  // the element that failed.
  virtual bool next(Element& out) = 0;
  // Goes over the position, inputs included. It is read at most once, before the first next(), by a
  // cursor of the same node.
  virtual void position(PositionFields& fields) = 0;

  // If the elements are rows of a table: the table, and the number of the next row, which a caller
  // may take instead of calling next(). -1 at the end.
  virtual const Table* table() const { return nullptr; }
  virtual int64_t next_row() { return -1; }

  // Whether next_block() is faster than next().
  virtual bool has_blocks() const { return table() != nullptr; }
  // Returns from one to `most` elements, none at the end. Only when has_blocks().
  virtual Block next_block(int64_t most);
};
using CursorPtr = std::unique_ptr<Cursor>;

// Goes over the parameters of a node. A description is written by one implementation and read by
// another, so that each node lists its parameters once.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void field(std::string_view name, int64_t& value) = 0;
  virtual void field(std::string_view name, double& value) = 0;
  virtual void field(std::string_view name, std::string& value) = 0;
  virtual void field(std::string_view name, Element& value) = 0;
  virtual void field(std::string_view name, Function& value) = 0;
  virtual void field(std::string_view name, DatasetFunction& value) = 0;
  virtual void field(std::string_view name, GeneratorFunction& value) = 0;

  void field(std::string_view name, bool& value);
  void field(std::string_view name, int& value);
  void field(std::string_view name, IntOrAutotune& value);
  void field(std::string_view name, uint64_t& value);
  void field(std::string_view name, Seed& value);
  void field(std::string_view name, std::optional<bool>& value);
  void field(std::string_view name, std::optional<ElementSpec>& value);
  template <typename T>  // int64_t or double
  void field(std::string_view name, std::vector<T>& value) {
    Element list(Tensor::from(value));
    field(name, list);
    value = list.tensor().template to_vector<T>();
  }
  void field(std::string_view name, std::vector<Tensor>& value);
  void field(std::string_view name, std::vector<Shape>& value);
};

// What a strategy that rewrites descriptions may assume of a stage.
enum class NodeRole : uint8_t {
  Other,        // nothing: the stage may do anything
  PassThrough,  // elements pass whole; batches keep their size (cache, filter, shuffle, take, ...)
  Transform,    // makes new elements of its input's elements only (map, batch, unbatch, ...)
  Join,         // zip and concatenate: each input is treated alike
  Expand,       // flat_map and interleave: makes a dataset, maybe of files, of each element
  Reader,       // opens the files that its input names
  Source,       // has no input: memory, range, generator
};

// One stage of a description. Immutable once it is part of a Dataset.
class Node : public std::enable_shared_from_this<Node> {
 public:
  virtual ~Node() = default;

  // "Batch": the name in errors, saved positions and serialized descriptions. Code that must know
  // what a stage does asks one of the functions below, not for the name.
  virtual std::string_view kind() const = 0;
  virtual CursorPtr open(const Context& context) const = 0;
  virtual Cardinality cardinality() const = 0;
  virtual std::optional<ElementSpec> spec() const { return std::nullopt; }
  virtual NodeRole role() const { return NodeRole::Other; }
  // The function of an Expand stage that makes the datasets.
  virtual const DatasetFunction* dataset_function() const { return nullptr; }
  // The function of map.
  virtual const Function* element_function() const { return nullptr; }
  // Size of the batches that this stage makes; -1 if it makes none, or batches of several sizes.
  virtual int64_t batch_size() const { return -1; }
  // Whether the stage leaves out elements that other pipelines deliver, so that all pipelines need
  // the same order before it.
  virtual bool divides() const { return false; }
  // Whether the stage does nothing but change the order of its input's elements at random.
  virtual bool shuffles() const { return false; }
  // Whether workers that divide the elements divide them before this stage, not after it: the
  // stage should hold elements of its own worker only (prefetch), or has none (options).
  virtual bool is_sharded_before() const { return false; }
  // Whether the stage keeps the elements of its first pass for later passes.
  virtual bool caches() const { return false; }
  // Whether the program's code makes the elements from nothing, so that another process may make
  // others.
  virtual bool generates() const { return false; }
  // Whether the stage may have another number of inputs than one.
  virtual bool combines() const { return role() == NodeRole::Join; }
  // Makes shard(kShardHint, ...) in this stage, or in the datasets it makes, mean shard(count,
  // index).
  virtual void fill_shard_hint(int64_t /*count*/, int64_t /*index*/) {}
  // Of a cache: where the stored pass began; empty if no pass is stored.
  virtual std::string stored_start() const { return {}; }
  // Number of elements that a thread makes ahead of the consumer, if this is the last stage.
  virtual int64_t read_ahead() const { return 0; }
  // Throws InvalidArgument for parameters that make no sense.
  virtual void check() const {}
  // Goes over the parameters, to read or to write them.
  virtual void fields(Fields& /*fields*/) {}
  virtual std::shared_ptr<Node> clone() const = 0;
  // The text that to_string() adds to the kind: "(4)".
  virtual std::string details() const { return {}; }
  // The options in force after this stage.
  virtual DatasetOptions options() const;

  const Node& input(size_t index = 0) const { return *inputs[index]; }

  std::vector<std::shared_ptr<const Node>> inputs;
  // The passes that strategies began over datasets with this stage. Other iterators of this process
  // do not count, because other workers do not know of them.
  StageCount passes;
  std::optional<Seed> seed;  // of a stage that draws random numbers
  StageCount iterators;      // that began such a stage
};
using NodePtr = std::shared_ptr<const Node>;

// Access to the private parts of the public handles.
struct DatasetAccess {
  static Dataset make(NodePtr node) { return Dataset(std::move(node)); }
  static const NodePtr& node(const Dataset& dataset) { return dataset.node_; }

  template <typename F>
  static F empty() {
    return {};
  }
  template <typename F>
  static F named(F function, std::string name) {
    function.name_ = std::move(name);
    return function;
  }
  static const RowFunction* rows(const Function& function) { return function.rows_.get(); }
};

// Returns a dataset that ends in a new `N` with these inputs. set(node) sets its parameters.
template <typename N, typename Set = void (*)(N&)>
Dataset add_stage(
    std::vector<NodePtr> inputs, const Set& set = [](N&) {}) {
  auto node = std::make_shared<N>();
  node->inputs = std::move(inputs);
  set(*node);
  node->check();
  return DatasetAccess::make(std::move(node));
}

// Sets each option of `all` that `later` has a value for.
void add_options(const DatasetOptions& later, DatasetOptions& all);

// Returns the stages of a dataset that ends in `last`: each stage once, after its inputs.
std::vector<NodePtr> all_stages(const NodePtr& last);

// Returns the code of a failure in a stage. OutOfRange becomes InvalidArgument: if a user's
// function reads past the end of other data, this dataset has not ended.
Code code_in_stage(const Status& failure);
// Throws `failure` of element `index` in a stage, with the code and cause of the failure.
[[noreturn]] void raise_in_stage(std::string_view stage, int64_t index, const Status& failure);
// Throws Cancelled once the iterator is being destroyed.
void check_running(const Context& context);

// Runs `body`, a user's function on element `index`.
template <typename Body>
auto in_stage(std::string_view stage, int64_t index, Body&& body) {
  try {
    return body();
  } catch (...) {
    raise_in_stage(stage, index, cohort::internal::status_of_current_exception());
  }
}

}  // namespace cohort::data::internal
