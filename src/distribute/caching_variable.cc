#include "distribute/caching_variable.h"

#include "cohort/device.h"
#include "cohort/ops.h"
#include "distribute/variable_scopes.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "train/row_reads.h"

namespace cohort::internal {

CachingVariable::CachingVariable(const Variable& far) : far_(far) {
  strategy = VariableAccess::impl(far)->strategy;
}

Tensor CachingVariable::read() const {
  const std::shared_ptr<ReadCache> cache = read_cache();
  if (cache == nullptr || RowReads::active()) return impl().read();
  const Tensor near = cache->get(VariableAccess::impl(far_), [this] {
    const RecordingPause unheard;  // tapes hear of every use below
    const DeviceScope here("CPU:0");
    return identity(impl().read());
  });
  return note_read(handle(), near, trainable());
}

std::shared_ptr<VariableImpl> CachingVariable::deep_copy() const {
  return std::make_shared<CachingVariable>(far_.deep_copy());
}

}  // namespace cohort::internal
