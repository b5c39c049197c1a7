#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/iterator.h"
#include "distribute/distributed_input.h"

namespace cohort::internal {

// The rows of an element; 1 when it is no batch, Shape::kUnknownDim when they are not known.
int64_t sample_count(const data::Element& element);

// What becomes of a last step for which some replicas have no element: what the input's rule says,
// or the others get empty ones in any case.
enum class LastStep : uint8_t { ByRule, Filled };

// A walk over a DistributedInput. Thread-safe. As an iterator of traced functions, its elements are
// tuples of those of the local replicas.
class DistributedInputIterator : public data::internal::IteratorBase {
 public:
  // With a position: goes on there. With a number: as data::internal::iterate_as.
  explicit DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                    const std::string* position = nullptr,
                                    std::optional<int64_t> number = std::nullopt);

  // nullopt at the end.
  std::optional<DistributedElement> next_step(LastStep last_step);
  std::optional<data::Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;

  // Throws unless this thread may call next().
  void check_caller() const;
  // The step whose tensors are these, from left to right.
  DistributedElement step_of(std::span<const Tensor> tensors) const;
  const DistributedInput& input() const { return *input_; }

 protected:
  std::optional<data::ElementSpec> find_spec() const override;

 private:
  void restore(const std::string& position);
  // Completes `drawn_`.
  void draw();
  // Of the local replicas, given how drawing went.
  InputTotals totals(const Status& drawing) const;
  InputTotals totals_of_all_workers(const Status& drawing);
  // After some worker's drawing failed: throws Aborted, saying whose, unless it was this one's.
  void hear_of_failures(const Status& drawing) const;
  bool is_complete() const;
  bool is_alone() const { return input_->replicas() == 1 && !input_->several_workers(); }
  DistributedElement deliver(std::optional<int64_t> global_samples);
  const data::Element& empty_element();
  // Whether it needs an empty element and cannot make one without the other workers.
  bool lacks_empty_element();
  // Together with all workers, one of which lacks it.
  void learn_empty_element();

  const std::shared_ptr<const DistributedInput> input_;

  std::mutex mutex_;  // guards everything below
  std::vector<data::Iterator> iterators_;
  // For the step to come, one for each replica; nullopt where the data has ended. Between calls
  // there is something only after an error: nothing that was drawn is lost by it.
  std::vector<std::optional<data::Element>> drawn_;
  bool ended_ = false;
  std::optional<data::ElementSpec> spec_;  // of the elements; once known
  std::optional<data::Element> empty_;     // for replicas without data; once needed
};

}  // namespace cohort::internal
