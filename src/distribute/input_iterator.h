#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/iterator.h"
#include "distribute/input_walks.h"

namespace cohort::internal {

// The rows of an element; 1 when it is no batch, Shape::kUnknownDim when they are not known.
int64_t sample_count(const data::Element& element);

// What becomes of a last step for which some replicas have no element: what the input's rule says,
// or the others get empty ones in any case.
enum class LastStep : uint8_t { ByRule, Filled };

// A walk over a DistributedInput. Thread-safe. As an iterator of traced functions, its elements are
// tuples of those of the local replicas and of the samples of all workers, where they are counted.
class DistributedInputIterator : public data::internal::IteratorBase {
 public:
  // With a position: goes on there. With a number: as the pass of that number, from 0 on, instead
  // of the next one.
  explicit DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                    const std::string* position = nullptr,
                                    std::optional<int64_t> number = std::nullopt);

  // nullopt at the end.
  std::optional<DistributedElement> next_step(LastStep last_step);
  std::optional<data::Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;
  // Of one replica's elements. Where only an element tells, begins the pass, on all workers, and
  // draws one. Throws FailedPrecondition when there is none.
  data::ElementSpec replica_spec() const;

  // Throws unless this thread may call next().
  void check_caller() const;
  // The step whose tensors are these, from left to right.
  DistributedElement step_of(std::span<const Tensor> tensors) const;
  const DistributedInput& input() const { return *input_; }

 protected:
  std::optional<data::ElementSpec> find_spec() const override;

 private:
  void restore(const std::string& position);
  // Together with all workers: settles what the walk is over.
  void agree() const;
  // Opens the pipelines unless they are open.
  void begin() const;
  void learn_spec(const std::optional<data::Element>& element) const;
  // Draws an element unless something is known of the elements.
  void look() const;
  // Draws for the next replica.
  void draw_one() const;
  // Completes what is drawn for the step to come.
  void draw();
  // Of the local replicas, given how drawing went.
  InputTotals totals(const Status& drawing) const;
  InputTotals totals_of_all_workers(const Status& drawing);
  // After some worker's drawing failed: throws Aborted, saying whose, unless it was this one's.
  void on_failure(const Status& drawing) const;
  bool is_complete() const;
  // Whether next() says how many samples all workers have.
  bool counts_samples() const;
  bool is_alone() const { return input_->replicas() == 1 && !input_->several_workers(); }
  [[noreturn]] void raise_end_of_endless_data() const;
  DistributedElement deliver(std::optional<int64_t> global_samples);
  const data::Element& empty_element();
  // Whether it needs an empty element and cannot make one without the other workers.
  bool lacks_empty_element();
  // Together with all workers, one of which lacks it.
  void learn_empty_element();

  // A position that was restored, until its walk begins.
  struct Restored {
    std::vector<std::string> positions;
    std::vector<std::optional<data::Element>> drawn;
  };

  const std::shared_ptr<const DistributedInput> input_;

  mutable std::mutex mutex_;  // guards everything below
  std::optional<int64_t> number_;
  std::optional<Restored> restored_;
  mutable std::optional<InputTerms> terms_;  // once the workers have agreed
  // Once it has begun. Between calls something is drawn only after an error, or after a look at the
  // elements: nothing is lost by either.
  mutable std::optional<InputWalk> walk_;
  mutable std::optional<data::ElementSpec> spec_;  // of the elements; once known
  bool ended_ = false;
  std::optional<data::Element> empty_;  // for replicas without data; once needed
};

}  // namespace cohort::internal
