#pragma once

#include <memory>

// How this thread reads the variables of strategies.

namespace cohort {

namespace internal {
class ReadCache;
}

// While it lives, a variable with synchronization OnRead that is used as a tensor inside a
// replica is its value over all replicas, not the replica's own; all replicas must do so together.
// Around run() it is for all of its replicas.
// read_value() of such a variable throws Unimplemented meanwhile.
class [[nodiscard]] VariableSyncOnReadScope {
 public:
  VariableSyncOnReadScope();
  ~VariableSyncOnReadScope();
  VariableSyncOnReadScope(const VariableSyncOnReadScope&) = delete;
  VariableSyncOnReadScope& operator=(const VariableSyncOnReadScope&) = delete;

 private:
  bool outer_;
};
inline VariableSyncOnReadScope variable_sync_on_read_context() { return VariableSyncOnReadScope(); }

// While it lives, what this thread and the replicas that it starts read of a variable on a
// parameter server is kept, and later reads give that, whatever is written meanwhile. Such scopes
// do not nest (InvalidArgument).
class [[nodiscard]] CacheVariableReadsScope {
 public:
  CacheVariableReadsScope();
  ~CacheVariableReadsScope();
  CacheVariableReadsScope(const CacheVariableReadsScope&) = delete;
  CacheVariableReadsScope& operator=(const CacheVariableReadsScope&) = delete;
};
inline CacheVariableReadsScope cache_variable_reads() { return CacheVariableReadsScope(); }

}  // namespace cohort
