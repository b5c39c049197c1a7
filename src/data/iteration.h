#pragma once

#include <map>
#include <memory>
#include <mutex>
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

// What all cursors of one iterator share. Thread-safe.
class Iteration {
 public:
  // The epoch that begins now at `node`; the first time it is `first`.
  ShuffleEpoch begin_epoch(const Node* node, const ShuffleEpoch& first);
  // Makes `epoch` the current one: a restored position.
  void set_epoch(const Node* node, const ShuffleEpoch& epoch);

 private:
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
