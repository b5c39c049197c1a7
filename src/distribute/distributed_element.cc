#include "base/raise.h"
#include "cohort/distributed_dataset.h"

namespace cohort {

DistributedElement::DistributedElement(std::vector<std::optional<data::Element>> elements,
                                       bool collapsed, std::vector<int64_t> sample_counts,
                                       Tensor global_batch_size)
    : PerReplica(std::move(elements), collapsed),
      counts_(std::move(sample_counts)),
      global_(std::move(global_batch_size)) {}

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
  if (knows_global_samples()) return global_.to<int64_t>();
  if (global_.defined()) {
    internal::raise(Code::FailedPrecondition,
                    "[DistributedElement] global_sample_count() is a number, which differs from "
                    "step to step, so a function that is traced does not know it; use "
                    "global_batch_size(), which is a tensor");
  }
  return global_batch_size().to<int64_t>();
}

Tensor DistributedElement::global_batch_size() const {
  if (global_.defined()) return global_;
  internal::raise(
      Code::FailedPrecondition,
      "[DistributedElement] the samples of all workers are not counted for endless data "
      "whose batches are not of one static size; all_reduce adds up those of the "
      "replicas");
}

}  // namespace cohort
