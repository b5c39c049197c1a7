#pragma once

// Iterating over a DistributedDataset. Not for inclusion by users: include
// cohort/distributed_dataset.h.

#include "cohort/distributed_dataset.h"

namespace cohort {

// StepIterator is the input iterator of range-for; it ends where the data ends.
class DistributedDataset::StepIterator {
 public:
  using value_type = DistributedElement;
  using reference = const DistributedElement&;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  explicit StepIterator(DistributedIterator from);
  const DistributedElement& operator*() const { return *current_; }
  StepIterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const StepIterator& it, std::default_sentinel_t) {
    return !it.current_.has_value();
  }

 private:
  DistributedIterator from_;
  std::optional<DistributedElement> current_;
};

inline DistributedDataset::StepIterator DistributedDataset::begin() const {
  return StepIterator(iterator());
}

template <typename T, typename F>
T DistributedDataset::reduce(T initial, const F& f) const {
  DistributedIterator from = iterator();
  while (const std::optional<DistributedElement> element = from.next_optional()) {
    initial = f(std::move(initial), *element);
  }
  return initial;
}

}  // namespace cohort
