#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "cohort/data.h"

namespace cohort::data::internal {

class Node;

// The numbers that a shuffle takes its order from: one stream per seed, iterator and epoch.
struct ShuffleEpoch {
  uint64_t seed = 0;
  int64_t iterator = 0;  // how many iterators the dataset had before
  int64_t epoch = 0;     // how often this iterator began the stage before
};

// One of an iterator's walks over a stage. A stage that is used twice, say by both inputs of a zip,
// is walked over twice, maybe by threads that read ahead: nothing that a walk is to give may depend
// on which of them comes first.
struct Walk {
  const Node* node;
  uint64_t branch;  // says by which inputs of which stages one gets to the node
};

// What a stage draws its random numbers from.
struct Seed {
  uint64_t value = 0;
  // The user did not choose it. Where several workers walk over one dataset, all take the chief's.
  bool drawn = false;
};

// The seed that the user chose, or a random one.
Seed seed_or_drawn(const std::optional<uint64_t>& chosen);

// Counts the iterators that begin a stage. Part of the stage; a copy of the stage starts anew.
class IteratorCount {
 public:
  IteratorCount() = default;
  IteratorCount(const IteratorCount&) {}
  int64_t take() const { return count_.fetch_add(1, std::memory_order_relaxed); }
  // Says that an iterator of that number began, maybe in another process.
  void include(int64_t number) const {
    int64_t now = count_.load(std::memory_order_relaxed);
    while (now <= number && number < INT64_MAX &&
           !count_.compare_exchange_weak(now, number + 1, std::memory_order_relaxed)) {
    }
  }

 private:
  mutable std::atomic<int64_t> count_ = 0;
};

// Where the passes begin that caches hand on.
using CachedPasses = std::map<const Node*, std::string>;

// What all cursors of one iterator share, or those of one dataset that a function made on the way.
// Thread-safe.
class Iteration {
 public:
  Iteration() = default;
  // `number` counts as the iterator's in all stages, so that their orders depend on nothing else:
  // of a dataset that was made on the way, or of a pass that other processes make too. The walks
  // over the caches in `cached_passes` hand on the passes that began there, whatever is stored; an
  // empty start means a pass that begins now.
  explicit Iteration(int64_t number, CachedPasses cached_passes = {})
      : number_(number), told_passes_(std::move(cached_passes)) {}

  // The epoch that the walk begins now. The epochs of a second walk over the node are far from
  // those of the first; which is which is settled when the iterator opens them all, on one thread.
  ShuffleEpoch begin_epoch(const Walk& walk, uint64_t seed, const IteratorCount& iterators);
  // Makes `epoch` the walk's current one: a restored position. Later iterators of a process that
  // counts them come after its number.
  void set_epoch(const Walk& walk, const ShuffleEpoch& epoch, const IteratorCount& iterators);

  // Where the pass began that a walk over a cache hands on in all its epochs; empty while it has
  // none, because those that it made have not come to their end; nullopt when it has not begun.
  std::optional<std::string> cached_pass(const Walk& cache);
  void set_cached_pass(const Walk& cache, const std::string& start);

 private:
  const std::optional<int64_t> number_;
  const CachedPasses told_passes_;
  std::mutex mutex_;
  std::map<const Node*, std::map<uint64_t, ShuffleEpoch>> epochs_;         // by branch
  std::map<std::pair<const Node*, uint64_t>, std::string> cached_passes_;  // by node and branch
};

// What a cursor gets from the iterator that it works for.
struct Context {
  std::stop_token stop;  // requested when the iterator, or the stage around, is being destroyed
  std::shared_ptr<Iteration> iteration;
  DatasetOptions options;  // those in force at the end of the whole dataset
  uint64_t branch = 0;     // of the walk
  // A later stage counts elements whose other parts are counted elsewhere: all stages before it
  // hand elements on in order, whatever they were told about that.
  bool counted = false;

  // The iterator only looks at an element: a source that cannot begin anew keeps what it makes.
  bool looks = false;

  // Whether a parallel stage keeps the order.
  bool keeps_order() const { return counted || options.deterministic.value_or(true); }
  // The same for a stage that has the option itself.
  bool keeps_order(const std::optional<bool>& deterministic) const {
    return deterministic ? counted || *deterministic : keeps_order();
  }
  Walk walk(const Node& node) const { return {&node, branch}; }
  // That of a stage's input, where it has several.
  Context for_input(size_t number) const;
};

// Numbers that look random; the whole state is one number, which makes positions small.
class Random {
 public:
  Random() = default;
  explicit Random(uint64_t state) : state_(state) {}
  explicit Random(const ShuffleEpoch& epoch);

  uint64_t next();
  // In [0, count), each alike.
  int64_t below(int64_t count);
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0;
};

// A seed from the system.
uint64_t random_seed();

}  // namespace cohort::data::internal
