// Gradients as values: tensors, and rows of tensors.

#include <ostream>

#include "base/raise.h"
#include "cohort/gradient.h"
#include "cohort/ops.h"

namespace cohort {

using internal::raise;

Tensor IndexedSlices::to_dense() const { return scatter(indices, values, dense_shape); }

Gradient::Gradient(Tensor dense) : dense_(std::move(dense)) {}

Gradient::Gradient(IndexedSlices slices)
    : slices_(std::make_shared<const IndexedSlices>(std::move(slices))) {}

const IndexedSlices& Gradient::slices() const {
  if (is_sparse()) return *slices_;
  raise(Code::FailedPrecondition, "[Gradient] this gradient is {}, not rows of a tensor",
        defined() ? "a tensor" : "undefined");
}

Tensor Gradient::dense() const {
  if (is_sparse()) return slices_->to_dense();
  if (dense_.defined()) return dense_;
  raise(Code::FailedPrecondition,
        "[Gradient] there is no gradient: the target does not depend on this source; ask for "
        "Unconnected::Zero to get zeros");
}

std::ostream& operator<<(std::ostream& out, const Gradient& gradient) {
  if (!gradient.defined()) return out << "None";
  if (!gradient.is_sparse()) return out << gradient.dense();
  const IndexedSlices& slices = gradient.slices();
  return out << "IndexedSlices(indices=" << slices.indices << ", values=" << slices.values
             << ", dense_shape=" << slices.dense_shape << ")";
}

}  // namespace cohort
