#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "data/iterator.h"
#include "distribute/input/distributed_input.h"

namespace cohort::internal {

// The rows of an element; 1 for an element that is not a batch, Shape::kUnknownDim if not known.
int64_t sample_count(const data::Element& element);

// Whether a last step for which some replicas have no element is filled with empty elements: as the
// input's rule says, or in any case.
enum class LastStep : uint8_t { ByRule, Filled };

// A walk over a DistributedInput. Thread-safe. For traced functions, an element is a tuple of the
// elements of the local replicas, and of the number of samples of all workers if that is counted.
class DistributedInputIterator : public data::internal::IteratorBase {
 public:
  // Goes on at a position, if one is given. With a number, this is the pass of that number, from 0
  // on, instead of the next one.
  explicit DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                    const std::string* position = nullptr,
                                    std::optional<int64_t> number = std::nullopt);

  // nullopt at the end.
  std::optional<DistributedElement> next_step(LastStep last_step);
  std::optional<data::Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;
  // Describes one replica's elements. If only an element shows what they are, begins the pass, on
  // all workers, and draws one. Throws FailedPrecondition if the data is empty.
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
  // Settles, together with all workers, what the walk is over.
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
  // The totals of the local replicas, given the outcome of draw().
  InputTotals totals(const Status& drawing) const;
  InputTotals totals_of_all_workers(const Status& drawing);
  // After draw() failed on some worker: throws Cancelled that names the worker, unless it failed on
  // this one.
  void on_failure(const Status& drawing) const;
  bool is_complete() const;
  // Whether next() says how many samples all workers have.
  bool counts_samples() const;
  bool is_alone() const { return input_->replicas() == 1 && !input_->several_workers(); }
  [[noreturn]] void raise_end_of_endless_data() const;
  DistributedElement deliver(std::optional<int64_t> global_samples);
  const data::Element& empty_element();
  // Whether this worker needs an empty element and cannot make one without the other workers.
  bool lacks_empty_element();
  // Gets an empty element from the other workers. All workers call this when one lacks it.
  void learn_empty_element();

  // A position that was restored, until its walk begins.
  struct Restored {
    std::vector<std::string> positions;
    std::vector<std::optional<data::Element>> drawn;
  };

  const std::shared_ptr<const DistributedInput> input_;

  // Of the thread that takes a step, which waits for the other workers. Guards everything below.
  mutable Turn turn_;
  std::optional<int64_t> number_;
  std::optional<Restored> restored_;
  mutable std::optional<InputTerms> terms_;  // once the workers have agreed
  // Set once it has begun. Between calls it holds drawn elements only after an error, or after a
  // look at the elements, so that neither loses any.
  mutable std::optional<InputWalk> walk_;
  mutable std::optional<data::ElementSpec> spec_;  // of the elements; once known
  bool ended_ = false;
  std::optional<data::Element> empty_;  // for replicas without data; once needed
};

}  // namespace cohort::internal
