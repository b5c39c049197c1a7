#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "cohort/data.h"

namespace cohort::data::internal {

class Node;

// The numbers that a shuffle takes its order from: one stream per seed, iterator and epoch.
struct ShuffleEpoch {
  uint64_t seed = 0;
  int64_t iterator = 0;  // how many iterators the dataset had before
  int64_t epoch = 0;     // how often this iterator began the stage before
};

// Counts the iterators that begin a stage. Part of the stage; a copy of the stage starts anew.
class IteratorCount {
 public:
  IteratorCount() = default;
  IteratorCount(const IteratorCount&) {}
  int64_t take() const { return count_.fetch_add(1, std::memory_order_relaxed); }

 private:
  mutable std::atomic<int64_t> count_ = 0;
};

// What all cursors of one iterator share, or those of one dataset that a function made on the way.
// Thread-safe.
class Iteration {
 public:
  Iteration() = default;
  // Of a dataset that was made on the way: `number` counts as the iterator's in all its stages, so
  // that their orders depend on nothing else.
  explicit Iteration(int64_t number) : number_(number) {}

  // The epoch that begins now at `node`.
  ShuffleEpoch begin_epoch(const Node* node, uint64_t seed, const IteratorCount& iterators);
  // Makes `epoch` the current one, unless a later one is: a restored position.
  void set_epoch(const Node* node, const ShuffleEpoch& epoch);

 private:
  const std::optional<int64_t> number_;
  std::mutex mutex_;
  std::map<const Node*, ShuffleEpoch> epochs_;
};

// What a cursor gets from the iterator that it works for.
struct Context {
  std::stop_token stop;  // requested when the iterator, or the stage around, is being destroyed
  std::shared_ptr<Iteration> iteration;
  DatasetOptions options;  // those in force at the end of the whole dataset
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
