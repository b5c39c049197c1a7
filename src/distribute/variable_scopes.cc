#include "distribute/variable_scopes.h"

#include "base/raise.h"
#include "ops/dispatch.h"

namespace cohort {
namespace internal {
namespace {

thread_local bool sync_on_read = false;

std::shared_ptr<ReadCache>& own_cache() {
  thread_local std::shared_ptr<ReadCache> cache;
  return cache;
}

}  // namespace

bool syncs_on_read() { return sync_on_read; }

Tensor ReadCache::get(const std::shared_ptr<VariableImpl>& variable,
                      const std::function<Tensor()>& read) {
  const std::lock_guard lock(mutex_);
  Tensor& value = values_[{variable, thread_dispatch().builder}];
  if (!value.defined()) value = read();
  return value;
}

std::shared_ptr<ReadCache> read_cache() { return own_cache(); }

ReadCacheAdoption::ReadCacheAdoption(std::shared_ptr<ReadCache> cache) : outer_(own_cache()) {
  own_cache() = std::move(cache);
}
ReadCacheAdoption::~ReadCacheAdoption() { own_cache() = std::move(outer_); }

}  // namespace internal

VariableSyncOnReadScope::VariableSyncOnReadScope() : outer_(internal::sync_on_read) {
  internal::sync_on_read = true;
}
VariableSyncOnReadScope::~VariableSyncOnReadScope() { internal::sync_on_read = outer_; }

CacheVariableReadsScope::CacheVariableReadsScope() {
  if (internal::own_cache() != nullptr) {
    internal::raise(Code::InvalidArgument,
                    "[cache_variable_reads] reads are cached already; these scopes do not nest");
  }
  internal::own_cache() = std::make_shared<internal::ReadCache>();
}
CacheVariableReadsScope::~CacheVariableReadsScope() { internal::own_cache() = nullptr; }

}  // namespace cohort
