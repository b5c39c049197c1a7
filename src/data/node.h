#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"
#include "cohort/data.h"
#include "data/element_access.h"
#include "data/iteration.h"
#include "data/pass_count.h"
#include "data/state.h"

namespace cohort::data::internal {

using cohort::internal::raise;

// Several elements side by side: each tensor has them as its rows.
struct Block {
  int64_t count = 0;  // 0: no more elements
  Element rows;
};

// Elements that lie in memory as rows of tensors, so that stages can pass on numbers instead of
// elements and a batch is copied once, from where it lies.
class Table {
 public:
  virtual ~Table() = default;
  virtual int64_t count() const = 0;
  virtual Element row(int64_t index) const = 0;
  virtual Element rows(std::span<const int64_t> indices) const = 0;
  // Neighbouring rows [begin, end).
  virtual Element slice(int64_t begin, int64_t end) const = 0;
};

// A walk over the elements of a node. One thread at a time uses it; stages with threads of their
// own see to that.
class Cursor {
 public:
  virtual ~Cursor() = default;

  // False at the end, and then again false. After an error, the next call goes on behind the
  // element that failed.
  virtual bool next(Element& out) = 0;
  virtual void save(StateWriter& state) = 0;
  // Called once, before the first next(), on a cursor of the same node.
  virtual void restore(StateReader& state) = 0;

  // Where the elements are rows of a table: the table, and instead of next() the number of the next
  // row, -1 at the end.
  virtual const Table* table() const { return nullptr; }
  virtual int64_t next_row() { return -1; }

  // Whether next_block() is quicker than next().
  virtual bool has_blocks() const { return table() != nullptr; }
  // From one to `most` elements, none at the end. Only when has_blocks().
  virtual Block next_block(int64_t most);
};
using CursorPtr = std::unique_ptr<Cursor>;

class Fields;  // data/fields.h

// What a strategy that rewrites descriptions may assume of a stage.
enum class NodeRole : uint8_t {
  Other,        // nothing: it may do anything
  PassThrough,  // elements pass whole; batches keep their size (cache, filter, shuffle, take, ...)
  Transform,  // makes others of its input's elements and of nothing else (map, batch, unbatch, ...)
  Join,       // zip and concatenate: each input is treated alike
  Expand,  // flat_map and interleave: makes a dataset of each element, maybe one that reads files
  Reader,  // opens the files that its input names
  Source,  // has elements of its own: memory, range, generator
};

// One stage of a description. Immutable once it is part of a Dataset.
class Node : public std::enable_shared_from_this<Node> {
 public:
  virtual ~Node() = default;

  // "Batch": in errors, saved positions and serialized descriptions.
  virtual std::string_view kind() const = 0;
  virtual CursorPtr open(const Context& context) const = 0;
  virtual int64_t cardinality() const = 0;
  virtual std::optional<ElementSpec> spec() const { return std::nullopt; }
  virtual NodeRole role() const { return NodeRole::Other; }
  // Of an Expand stage, what makes the datasets.
  virtual const DatasetFunction* dataset_function() const { return nullptr; }
  // Of map, what makes elements of elements.
  virtual const Function* element_function() const { return nullptr; }
  // Size of the batches that this stage itself makes; -1 when it makes none, or not of one size.
  virtual int64_t batch_size() const { return -1; }
  // Whether it leaves elements out that other pipelines deliver, so that all of them need one order
  // before it.
  virtual bool divides() const { return false; }
  // Elements that a thread of this last stage makes ahead of the consumer.
  virtual int64_t read_ahead() const { return 0; }
  // Throws InvalidArgument for parameters that make no sense.
  virtual void check() const {}
  // Shows each parameter to `fields`, which reads or writes it.
  virtual void fields(Fields& fields) = 0;
  virtual std::shared_ptr<Node> clone() const = 0;
  // What to_string() adds to the kind: "(4)".
  virtual std::string details() const { return {}; }
  // The options in force behind this stage.
  virtual DatasetOptions options() const;

  const Node& input(size_t index = 0) const { return *inputs[index]; }

  std::vector<std::shared_ptr<const Node>> inputs;
  PassCount passes;
  std::optional<Seed> seed;  // of a stage that draws
};
using NodePtr = std::shared_ptr<const Node>;

template <typename Self>
class NodeOf : public Node {
 public:
  std::shared_ptr<Node> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
};

// The private parts of the public handles.
struct DatasetAccess {
  static Dataset make(NodePtr node) { return Dataset(std::move(node)); }
  static const NodePtr& node(const Dataset& dataset) { return dataset.node_; }

  static Function empty_function() { return {}; }
  static DatasetFunction empty_dataset_function() { return {}; }
  static GeneratorFunction empty_generator() { return {}; }
  template <typename F>
  static F named(F function, std::string name) {
    function.name_ = std::move(name);
    return function;
  }
  static const RowFunction* rows(const Function& function) { return function.rows_.get(); }
};

// A dataset that ends in `node`, whose inputs and parameters are set.
template <typename N>
Dataset finish(std::shared_ptr<N> node) {
  node->check();
  return DatasetAccess::make(std::move(node));
}

template <typename N>
std::shared_ptr<N> stage_on(const NodePtr& input) {
  auto node = std::make_shared<N>();
  node->inputs = {input};
  return node;
}

// The stages of a dataset that ends in `last`, each once, after its inputs.
std::vector<NodePtr> all_stages(const NodePtr& last);

// The code of a failure in a stage. The end of other data, which a user's function read, is not the
// end of this.
Code code_in_stage(const Status& failure);
// Throws `failure` of element `index` in a stage, with its code and its cause.
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
