#include "distribute/variables/caching_variable.h"

#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "variables/row_reads.h"

namespace cohort {
namespace internal {
namespace {

constinit ContextSlot<bool> sync_on_read;
constinit ContextSlot<std::shared_ptr<ReadCache>> open_cache;

}  // namespace

bool syncs_on_read() { return sync_on_read.get(); }

Tensor ReadCache::get(const std::shared_ptr<VariableImpl>& variable,
                      const std::function<Tensor()>& read) {
  const std::lock_guard lock(mutex_);
  Tensor& value = values_[{variable, thread_dispatch().builder}];
  if (!value.defined()) value = read();
  return value;
}

std::shared_ptr<ReadCache> read_cache() { return open_cache.get(); }

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

}  // namespace internal

VariableSyncOnReadScope::VariableSyncOnReadScope()
    : outer_(std::exchange(internal::sync_on_read.get(), true)) {}
VariableSyncOnReadScope::~VariableSyncOnReadScope() { internal::sync_on_read.get() = outer_; }

CacheVariableReadsScope::CacheVariableReadsScope() {
  if (internal::open_cache.get() != nullptr) {
    internal::raise(Code::InvalidArgument,
                    "[cache_variable_reads] reads are cached already; these scopes do not nest");
  }
  internal::open_cache.get() = std::make_shared<internal::ReadCache>();
}
CacheVariableReadsScope::~CacheVariableReadsScope() { internal::open_cache.get() = nullptr; }

}  // namespace cohort
