#include "base/raise.h"
#include "cohort/distributed_dataset.h"

namespace cohort {

DistributedElement::DistributedElement(std::vector<std::optional<data::Element>> elements,
                                       bool collapsed, std::vector<int64_t> sample_counts,
                                       std::optional<int64_t> global_samples)
    : PerReplica(std::move(elements), collapsed),
      counts_(std::move(sample_counts)),
      global_(global_samples) {}

bool DistributedElement::has_data(size_t replica) const {
  if (replica >= counts_.size()) internal::throw_no_component(replica, counts_.size());
  return counts_[replica] > 0;
}

int64_t DistributedElement::global_sample_count() const {
  if (global_) return *global_;
  internal::raise(Code::FailedPrecondition,
                  "[DistributedElement] the samples of all workers are not counted, because the "
                  "data is endless; sample_counts() has this worker's, which all_reduce adds up");
}

}  // namespace cohort
