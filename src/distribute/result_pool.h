#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/tensor.h"
#include "ops/op.h"

namespace cohort::internal {

// Tensors that all replicas see: each has its own handles, on its device, of the same memory.
struct SharedResults {
  uint64_t signature;
  Specs specs;
  std::vector<std::byte*> data;              // by tensor
  std::vector<std::vector<Tensor>> handles;  // by replica, then by tensor
};

// Memory for results, used again once nobody holds what was handed out: fresh memory costs more to
// touch than a reduction takes. Thread-safe.
class ResultPool {
 public:
  explicit ResultPool(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  // Results with arbitrary content, which the caller may write until it hands the handles out.
  // `specs` says which dtypes and shapes `signature` stands for; asked when there are none yet.
  std::shared_ptr<SharedResults> take(uint64_t signature, const std::function<Specs()>& specs);

 private:
  static constexpr size_t kMaxKept = 8;

  std::shared_ptr<SharedResults> make(uint64_t signature, Specs specs) const;

  const std::vector<std::string> devices_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<SharedResults>> kept_;  // guarded by mutex_; used last comes last
};

}  // namespace cohort::internal
