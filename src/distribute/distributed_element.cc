#include "base/raise.h"
#include "cohort/distributed_dataset.h"

namespace cohort {

DistributedElement::DistributedElement(std::vector<std::optional<data::Element>> elements,
                                       bool collapsed, std::vector<int64_t> sample_counts,
                                       std::optional<int64_t> global_samples)
    : PerReplica(std::move(elements), collapsed),
      counts_(std::move(sample_counts)),
      global_(global_samples) {}

const std::vector<int64_t>& DistributedElement::sample_counts() const {
  if (counts_.empty()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedElement] how many samples the replicas have is not known while a "
                    "function is traced; ask the shapes of the elements, or iterate outside");
  }
  return counts_;
}

bool DistributedElement::has_data(size_t replica) const {
  const std::vector<int64_t>& counts = sample_counts();
  if (replica >= counts.size()) internal::throw_no_component(replica, counts.size());
  return counts[replica] > 0;
}

int64_t DistributedElement::global_sample_count() const {
  if (global_) return *global_;
  internal::raise(Code::FailedPrecondition,
                  "[DistributedElement] the samples of all workers are not counted for endless "
                  "data, nor in traced functions; all_reduce adds up those of the replicas");
}

}  // namespace cohort
