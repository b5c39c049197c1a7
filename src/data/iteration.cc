#include "data/iteration.h"

#include <random>

namespace cohort::data::internal {

ShuffleEpoch Iteration::begin_epoch(const Node* node, uint64_t seed,
                                    const IteratorCount& iterators) {
  const std::lock_guard lock(mutex_);
  const auto found = epochs_.find(node);
  if (found != epochs_.end()) {
    ++found->second.epoch;
    return found->second;
  }
  const int64_t iterator = number_ ? *number_ : iterators.take();
  return epochs_[node] = {.seed = seed, .iterator = iterator};
}

void Iteration::set_epoch(const Node* node, const ShuffleEpoch& epoch) {
  const std::lock_guard lock(mutex_);
  ShuffleEpoch& current = epochs_[node];
  const bool same = current.seed == epoch.seed && current.iterator == epoch.iterator;
  if (!same || current.epoch < epoch.epoch) current = epoch;
}

Random::Random(const ShuffleEpoch& epoch) : state_(epoch.seed) {
  // Mixed through the generator itself, so that neighbouring epochs have nothing in common.
  state_ = next() ^ static_cast<uint64_t>(epoch.iterator);
  state_ = next() ^ static_cast<uint64_t>(epoch.epoch);
  state_ = next();
}

uint64_t Random::next() {
  // SplitMix64.
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

int64_t Random::below(int64_t count) {
  // Lemire's multiplication, with rejection of the uneven rest.
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

uint64_t random_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

}  // namespace cohort::data::internal
