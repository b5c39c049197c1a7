#pragma once

#include "base/mutex.h"
#include "data/node.h"
#include "ops/element_source.h"

namespace cohort::data::internal {

using cohort::internal::ElementLayout;

// The implementation of an Iterator: a walk in this process, or a strategy's combination of
// several.
class IteratorBase : public cohort::internal::ElementSource {
 public:
  // An iterator without a name gets a name that is unique in this process.
  explicit IteratorBase(std::string name = {});

  virtual std::optional<Element> next() = 0;
  virtual std::string save() = 0;

  const std::optional<ElementSpec>& element_spec() const { return known().spec; }
  // How many replicas share the elements. In traced code next() gives each replica its own element.
  virtual size_t replicas() const { return 1; }
  // "Iterator over (float32 (), int64 ())"
  const std::string& kind() const { return known().kind; }

  const std::string& name() const override { return name_; }
  const ElementLayout& layout() const override;
  std::optional<std::vector<Tensor>> next_tensors() override;

 protected:
  // Returns the spec of the elements, nullopt if it is unknown. Called once.
  virtual std::optional<ElementSpec> find_spec() const = 0;

 private:
  struct Known {
    std::optional<ElementSpec> spec;
    ElementLayout layout;
    std::string kind;
  };
  const Known& known() const;

  const std::string name_;
  mutable cohort::internal::OnceFlag known_once_;
  mutable Known known_;
};

// A walk over a description in this process.
class LocalIterator : public IteratorBase {
 public:
  // `looks`: see Context.
  explicit LocalIterator(NodePtr node, std::string name = {},
                         std::shared_ptr<Iteration> iteration = std::make_shared<Iteration>(),
                         bool looks = false);
  ~LocalIterator() override;

  // Must be called before the first next(). Throws InvalidArgument if the bytes are not a position
  // of this dataset.
  void restore(std::string_view position);
  // Another iterator takes the elements and adds them to the timeline itself.
  void set_driven() { is_driven_ = true; }

  std::optional<Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;

 protected:
  std::optional<ElementSpec> find_spec() const override;

 private:
  void visit_position(PositionFields& fields);

  std::stop_source stop_;
  const NodePtr node_;
  bool is_driven_ = false;
  mutable cohort::internal::Turn turn_;  // of the thread that runs the functions of the stages
  CursorPtr cursor_;                     // guarded by turn_
  // The first element, if find_spec() needed it; the next call of next() returns it.
  mutable std::optional<Element> seen_;  // guarded by turn_
};

// Makes an iterator for each call of a traced function. The first call gets the iterator that
// tracing used, so that no element is lost.
class WalkStarter : public cohort::internal::ElementSourceMaker {
 public:
  using Make = std::function<std::shared_ptr<IteratorBase>()>;
  WalkStarter(std::shared_ptr<IteratorBase> first, Make make)
      : make_(std::move(make)), first_(std::move(first)) {}

  std::shared_ptr<cohort::internal::ElementSource> make_source() override;

 private:
  const Make make_;
  cohort::internal::Mutex mutex_;
  std::shared_ptr<IteratorBase> first_;  // guarded by mutex_; null after the first call
};

// Returns a symbol for the iterator that each call of the traced function makes.
Tensor started_in_each_call(std::shared_ptr<IteratorBase> first, WalkStarter::Make make);

// Returns the first element of a new walk; nullopt if the dataset is empty. A generator keeps the
// element for the next iterator, but functions of stages are called again for it.
std::optional<Element> look_at_first(const Dataset& dataset);

// Returns the spec of a dataset's elements from its description, or else from its first element
// (see look_at_first()). A spec from an element has unknown first dimensions. nullopt if the
// dataset is empty.
std::optional<ElementSpec> spec_or_probe(const Dataset& dataset);

// Iterates as if this were iterator `number`, counted from 0, in every process: see Iteration.
// Starts at `position` unless it is null. For iterators that drive others: see set_driven().
Iterator iterate_as(const Dataset& dataset, int64_t number, CachedPasses cached_passes = {},
                    const std::string* position = nullptr);

}  // namespace cohort::data::internal
