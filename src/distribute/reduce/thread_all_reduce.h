#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/tensor.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "distribute/reduce/replica_calls.h"
#include "ops/op.h"

namespace cohort::internal {

// Tensors that all replicas share: each replica has handles of the same memory on its own device.
struct SharedResults {
  uint64_t signature;
  Specs specs;
  std::vector<std::byte*> data;              // by tensor
  std::vector<std::vector<Tensor>> handles;  // by replica, then by tensor
};

// Memory for results. It is used again once nothing holds the tensors that were handed out: the
// first touch of fresh memory takes longer than a reduction. Thread-safe.
class ResultPool {
 public:
  explicit ResultPool(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  // Results with arbitrary content, which the caller may write until it hands the handles out.
  // `specs` says which dtypes and shapes `signature` stands for; it is called when the pool has
  // no free results of that signature.
  std::shared_ptr<SharedResults> take(uint64_t signature, const std::function<Specs()>& specs);

 private:
  static constexpr size_t kMaxKept = 8;

  std::shared_ptr<SharedResults> make(uint64_t signature, Specs specs) const;

  const std::vector<std::string> devices_;
  Mutex mutex_;
  std::vector<std::shared_ptr<SharedResults>> kept_;  // guarded by mutex_; used last comes last
};

// Up to how many bytes values and results take the two paths for small values. Benchmarks set other
// limits, to compare a path with its absence.
struct SmallReductionLimits {
  int64_t inline_bytes = ReplicaRendezvous::InlineValue::kMaxBytes;  // also the largest limit
  // The most bytes that one replica adds up for all where replicas share cores. Where each replica
  // has a core to itself none does, because the cache of that core keeps what the replica wrote the
  // last time.
  int64_t at_once_bytes = 16 << 10;
};

// The quickest all-reduce between replicas that are threads of this process, which gives the bits
// of DirectAllReduce. The table in gradient_update.cc says how it adds up.
class ThreadAllReduce {
 public:
  explicit ThreadAllReduce(const std::vector<std::string>& devices,
                           const SmallReductionLimits& limits = {});

  // Every replica calls this at the same time. Unless all values are dense numbers that agree,
  // replica 0 calls `otherwise`, which sets the results of all replicas or throws.
  using Otherwise = std::function<void(const ReplicaCalls& calls)>;
  std::vector<Gradient> run(ReplicaRendezvous& rendezvous, size_t replica, const ReplicaCall& call,
                            const Otherwise& otherwise);

 private:
  const SmallReductionLimits limits_;
  ResultPool shared_;
  std::deque<ResultPool> private_;  // by replica
};

}  // namespace cohort::internal
