#pragma once

#include "base/once_flag.h"
#include "data/node.h"
#include "ops/element_source.h"

namespace cohort::data::internal {

using cohort::internal::ElementLayout;

// Whether what this thread calls is being traced into a function. A plain graph that is being built
// leaves iterators alone: programs iterate and feed sessions while one is open.
bool tracing();

// What an Iterator refers to: a walk in this process, or one that a strategy makes up of several.
class IteratorBase : public cohort::internal::ElementSource {
 public:
  // Without a name it gets one that no other iterator of the process has.
  explicit IteratorBase(std::string name = {});

  virtual std::optional<Element> next() = 0;
  virtual std::string save() = 0;

  const std::optional<ElementSpec>& element_spec() const { return known().spec; }
  // How many replicas share the elements out in traced code: next() there gives each its own.
  virtual size_t replicas() const { return 1; }
  // "Iterator over (float32 (), int64 ())"
  const std::string& kind() const { return known().kind; }

  const std::string& name() const override { return name_; }
  const ElementLayout& layout() const override;
  std::optional<std::vector<Tensor>> next_tensors() override;

 protected:
  // What is known of the elements, nullopt when nothing is; asked for once.
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

  // Before the first next(). Throws InvalidArgument for bytes that are not this dataset's position.
  void restore(std::string_view position);

  std::optional<Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;

 protected:
  std::optional<ElementSpec> find_spec() const override;

 private:
  void visit_position(PositionFields& fields);

  std::stop_source stop_;
  const NodePtr node_;
  mutable std::mutex mutex_;
  CursorPtr cursor_;                     // guarded by mutex_
  mutable std::optional<Element> seen_;  // guarded by mutex_; made to describe it, next() gives it
};

// Starts the walks of a traced function's calls. The iterator that tracing looked at serves the
// first call, so that nothing it drew is lost.
class WalkStarter : public cohort::internal::ElementSourceMaker {
 public:
  using Make = std::function<std::shared_ptr<IteratorBase>()>;
  WalkStarter(std::shared_ptr<IteratorBase> first, Make make)
      : make_(std::move(make)), first_(std::move(first)) {}

  std::shared_ptr<cohort::internal::ElementSource> make_source() override;

 private:
  const Make make_;
  std::mutex mutex_;
  std::shared_ptr<IteratorBase> first_;  // guarded by mutex_; null once handed out
};

// A symbol for the iterator of each call of the function that is being traced.
Tensor started_in_each_call(std::shared_ptr<IteratorBase> first, WalkStarter::Make make);

// The first element of a walk of its own; nullopt when there is none. A generator keeps what it
// makes for the next iterator. Functions of stages have been called once more than elements are
// delivered: an iterator that delivers the element it looked at is better where there is one.
std::optional<Element> look_at_first(const Dataset& dataset);

// Iterates as the iterator of that number over the dataset, the first being 0, in any process: see
// Iteration. With a position: goes on there.
Iterator iterate_as(const Dataset& dataset, int64_t number, CachedPasses cached_passes = {},
                    const std::string* position = nullptr);

}  // namespace cohort::data::internal
