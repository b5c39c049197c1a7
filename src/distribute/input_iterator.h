#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distribute/distributed_input.h"

namespace cohort::internal {

// What becomes of a last step for which some replicas have no element: what the input's rule says,
// or the others get empty ones in any case.
enum class LastStep : uint8_t { ByRule, Filled };

// A walk over a DistributedInput. Thread-safe.
class DistributedInputIterator {
 public:
  // With a position: goes on there.
  explicit DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                    const std::string* position = nullptr);

  // nullopt at the end.
  std::optional<DistributedElement> next(LastStep last_step);
  std::string save();
  const DistributedInput& input() const { return *input_; }

 private:
  void restore(const std::string& position);
  void check_caller() const;
  // Completes `drawn_`.
  void draw();
  // Of the local replicas, given how drawing went.
  InputTotals totals(const Status& drawing) const;
  InputTotals totals_of_all_workers(const Status& drawing) const;
  bool is_complete() const;
  DistributedElement deliver(std::optional<int64_t> global_samples);
  const data::Element& empty_element();

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
