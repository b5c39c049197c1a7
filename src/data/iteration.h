#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "cohort/dataset.h"

namespace cohort::data::internal {

class Node;
class PositionFields;  // data/iterator_position.h

// The numbers that decide the order of a shuffle: one random stream per seed, iterator and epoch.
struct ShuffleEpoch {
  uint64_t seed = 0;
  int64_t iterator = 0;  // how many iterators the dataset had before
  int64_t epoch = 0;     // how often this iterator began the stage before

  void position(PositionFields& fields);
};

// One of an iterator's walks over a stage. An iterator walks twice over a stage that is used twice,
// say by both inputs of a zip, and threads that read ahead may do so at the same time. No element
// of a walk may depend on which walk comes first.
struct Walk {
  const Node* node;
  uint64_t branch;  // identifies the path of inputs that leads to the node
};

// The seed of a stage's random numbers.
struct Seed {
  uint64_t value = 0;
  // Whether the seed was drawn because the user chose none. If several workers walk over one
  // dataset, all workers take the drawn seeds of the chief.
  bool drawn = false;
};

// Returns the seed that the user chose, or a random one.
Seed seed_or_drawn(const std::optional<uint64_t>& chosen);

// Counts what began in a stage. A copy of the stage starts again at 0.
class StageCount {
 public:
  StageCount() = default;
  StageCount(const StageCount&) {}
  int64_t take() const { return next_.fetch_add(1, std::memory_order_relaxed); }
  int64_t next() const { return next_.load(std::memory_order_relaxed); }
  void set_next(int64_t number) const { next_.store(number, std::memory_order_relaxed); }
  // Makes the next number at least `least`.
  void raise_next(int64_t least) const {
    int64_t now = next();
    while (now < least && !next_.compare_exchange_weak(now, least, std::memory_order_relaxed)) {
    }
  }

 private:
  mutable std::atomic<int64_t> next_ = 0;
};

// By cache: the position of the cache's input at which the cached pass began.
using CachedPasses = std::map<const Node*, std::string>;

// The state that all cursors of one iterator share. A dataset that flat_map or interleave makes has
// an Iteration of its own. Thread-safe.
class Iteration {
 public:
  Iteration() = default;
  // `number` counts as the iterator's number in all stages, so that the order of their elements
  // depends on nothing else. This is for datasets that flat_map or interleave makes, and for passes
  // that other processes make too. Walks over the caches in `cached_passes` deliver the passes that
  // began there, whatever the caches hold; an empty start means a pass that begins now.
  explicit Iteration(int64_t number, CachedPasses cached_passes = {})
      : number_(number), given_passes_(std::move(cached_passes)) {}

  // Returns the epoch that the walk begins now. Epoch numbers of a second walk over the node are
  // far from those of the first walk. One thread opens all walks of an iterator, which decides
  // which walk is the first.
  ShuffleEpoch begin_epoch(const Walk& walk);
  // Makes `epoch`, from a saved position, the current epoch of the walk. Later iterators of this
  // process get higher numbers.
  void set_epoch(const Walk& walk, const ShuffleEpoch& epoch);

  // Returns where the pass began that a walk over a cache delivers in all its epochs. Empty until a
  // pass is complete; nullopt if the walk has not begun.
  std::optional<std::string> cached_pass(const Walk& cache);
  void set_cached_pass(const Walk& cache, const std::string& start);

 private:
  const std::optional<int64_t> number_;
  const CachedPasses given_passes_{};
  cohort::internal::Mutex mutex_;
  std::map<const Node*, std::map<uint64_t, ShuffleEpoch>> epochs_;         // by branch
  std::map<std::pair<const Node*, uint64_t>, std::string> cached_passes_;  // by node and branch
};

// What a cursor gets from its iterator.
struct Context {
  std::stop_token stop;  // requested when the iterator, or a later stage, is being destroyed
  std::shared_ptr<Iteration> iteration;
  DatasetOptions options;  // the options in force at the end of the whole dataset
  uint64_t branch = 0;     // of the walk
  // Whether a later stage divides the elements among pipelines by their number. All stages before
  // that stage then keep the order of elements, even if an option allows another order.
  bool counted = false;

  // Whether the iterator only looks at the first element. A source that cannot start again keeps
  // the elements that it makes meanwhile.
  bool looks = false;

  // Whether a parallel stage keeps the order.
  bool keeps_order() const { return counted || options.deterministic.value_or(true); }
  // The same for a stage that has the option itself.
  bool keeps_order(const std::optional<bool>& deterministic) const {
    return deterministic ? counted || *deterministic : keeps_order();
  }
  Walk walk(const Node& node) const { return {&node, branch}; }
  // The same of Iteration, for a node with a seed.
  ShuffleEpoch begin_epoch(const Node& node) const { return iteration->begin_epoch(walk(node)); }
  void set_epoch(const Node& node, const ShuffleEpoch& epoch) const {
    iteration->set_epoch(walk(node), epoch);
  }
  // Returns the context for one of several inputs of a stage.
  Context for_input(size_t number) const;
};

// A pseudo-random generator whose whole state is one number, which keeps saved positions small.
class Random {
 public:
  Random() = default;
  explicit Random(uint64_t state) : state_(state) {}
  explicit Random(const ShuffleEpoch& epoch);

  uint64_t next();
  // Returns a uniformly distributed number in [0, count).
  int64_t below(int64_t count);
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  void position(PositionFields& fields);

 private:
  uint64_t state_ = 0;
};

// Returns a seed from the operating system.
uint64_t random_seed();

// Returns the number of the next pass over the dataset. It is higher than the number of any pass
// over one of the dataset's stages, also of passes over other datasets that share the stage.
int64_t next_pass(const Dataset& dataset);
// Sets the number of the next pass for all stages of the dataset.
void set_next_pass(const Dataset& dataset, int64_t number);
// Makes the number of the next pass at least `least`.
void raise_next_pass(const Dataset& dataset, int64_t least);

}  // namespace cohort::data::internal
