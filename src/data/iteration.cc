#include "data/iteration.h"

#include <algorithm>

#include "base/hash.h"
#include "base/random_number.h"
#include "data/node.h"

namespace cohort::data::internal {

void ShuffleEpoch::position(PositionFields& fields) {
  fields.integer(seed);
  fields.integer(iterator);
  fields.integer(epoch);
}

ShuffleEpoch Iteration::begin_epoch(const Walk& walk) {
  const std::lock_guard lock(mutex_);
  std::map<uint64_t, ShuffleEpoch>& walks = epochs_[walk.node];
  const auto found = walks.find(walk.branch);
  if (found != walks.end()) {
    ++found->second.epoch;
    return found->second;
  }
  const auto new_iterator = [&] { return number_ ? *number_ : walk.node->iterators.take(); };
  const int64_t iterator = walks.empty() ? new_iterator() : walks.begin()->second.iterator;
  const int64_t first = static_cast<int64_t>(walks.size()) << 32;
  return walks[walk.branch] = {
             .seed = walk.node->seed->value, .iterator = iterator, .epoch = first};
}

void Iteration::set_epoch(const Walk& walk, const ShuffleEpoch& epoch) {
  if (!number_ && epoch.iterator < INT64_MAX) walk.node->iterators.raise_next(epoch.iterator + 1);
  const std::lock_guard lock(mutex_);
  epochs_[walk.node][walk.branch] = epoch;
}

std::optional<std::string> Iteration::cached_pass(const Walk& cache) {
  const std::lock_guard lock(mutex_);
  const auto found = cached_passes_.find({cache.node, cache.branch});
  if (found != cached_passes_.end()) return found->second;
  const auto given = given_passes_.find(cache.node);
  return given == given_passes_.end() ? std::nullopt : std::optional(given->second);
}

void Iteration::set_cached_pass(const Walk& cache, const std::string& start) {
  const std::lock_guard lock(mutex_);
  cached_passes_[{cache.node, cache.branch}] = start;
}

Context Context::for_input(size_t number) const {
  Context inside = *this;
  inside.branch = Random(branch + number + 1).next();
  return inside;
}

Random::Random(const ShuffleEpoch& epoch) : state_(epoch.seed) {
  // Mixed through the generator itself, so that neighbouring epochs have nothing in common.
  state_ = next() ^ static_cast<uint64_t>(epoch.iterator);
  state_ = next() ^ static_cast<uint64_t>(epoch.epoch);
  state_ = next();
}

void Random::position(PositionFields& fields) { fields.integer(state_); }

uint64_t Random::next() {
  return cohort::internal::mix64(state_ += cohort::internal::kSplitMixStep);
}

int64_t Random::below(int64_t count) {
  // Lemire's multiplication, which rejects the uneven remainder.
  const auto range = static_cast<uint64_t>(count);
  auto product = static_cast<unsigned __int128>(next()) * range;
  if (static_cast<uint64_t>(product) < range) {
    const uint64_t uneven = (0 - range) % range;
    while (static_cast<uint64_t>(product) < uneven) {
      product = static_cast<unsigned __int128>(next()) * range;
    }
  }
  return static_cast<int64_t>(product >> 64);
}

Seed seed_or_drawn(const std::optional<uint64_t>& chosen) {
  return chosen ? Seed{.value = *chosen} : Seed{.value = random_seed(), .drawn = true};
}

uint64_t random_seed() { return cohort::internal::random_number(); }

int64_t next_pass(const Dataset& dataset) {
  int64_t number = 0;
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    number = std::max(number, stage->passes.next());
  }
  return number;
}

void set_next_pass(const Dataset& dataset, int64_t number) {
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    stage->passes.set_next(number);
  }
}

void raise_next_pass(const Dataset& dataset, int64_t least) {
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    stage->passes.raise_next(least);
  }
}

}  // namespace cohort::data::internal
