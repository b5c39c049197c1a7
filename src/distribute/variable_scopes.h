#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "cohort/tensor.h"
#include "cohort/variable_scopes.h"

namespace cohort::internal {

class GraphBuilder;
class VariableImpl;

// Whether a VariableSyncOnReadScope is open in this thread.
bool syncs_on_read();

// What was read of variables inside one CacheVariableReadsScope. Thread-safe.
class ReadCache {
 public:
  // What the first call for this variable (and graph being built, or none) gave.
  Tensor get(const std::shared_ptr<VariableImpl>& variable, const std::function<Tensor()>& read);

 private:
  // The cache keeps its variables: a new one at the address of one that has ended would get the
  // value of that one.
  using Key = std::pair<std::shared_ptr<VariableImpl>, const GraphBuilder*>;

  std::mutex mutex_;
  std::map<Key, Tensor> values_;  // guarded by mutex_
};

// The cache that this thread uses now, if any.
std::shared_ptr<ReadCache> read_cache();

// While it lives, this thread uses `cache`: how the replicas of a run share their caller's.
class [[nodiscard]] ReadCacheAdoption {
 public:
  explicit ReadCacheAdoption(std::shared_ptr<ReadCache> cache);
  ~ReadCacheAdoption();
  ReadCacheAdoption(const ReadCacheAdoption&) = delete;
  ReadCacheAdoption& operator=(const ReadCacheAdoption&) = delete;

 private:
  std::shared_ptr<ReadCache> outer_;
};

}  // namespace cohort::internal
