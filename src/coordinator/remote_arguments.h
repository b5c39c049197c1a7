#pragma once

#include <vector>

#include "cohort/remote_value.h"
#include "graph/function_graph.h"

namespace cohort::internal {

// A tensor of the results of other functions: of one that all workers use, or of each worker's own.
struct RemoteArgument {
  RemoteArguments::Results results;
  size_t output;

  const std::shared_ptr<const RemoteResult>& of(int worker) const {
    return results.size() == 1 ? results[0] : results[static_cast<size_t>(worker)];
  }
};

class RemoteArguments::Impl {
 public:
  std::vector<Tensor> add(Results results, bool per_worker);
  // What one of the tensors stands for; nullopt for others.
  std::optional<RemoteArgument> find(const Tensor& tensor) const;

  // Throws InvalidArgument unless what each worker has its own of is there for each of `workers`,
  // and there are only such when others are not `allowed`; the error of a result that has failed.
  void check(int workers, bool allowed) const;

 private:
  struct Entry {
    std::shared_ptr<FunctionGraph> symbols;  // one argument for each tensor
    Results results;
    bool per_worker;
  };
  std::vector<Entry> entries_;
};

}  // namespace cohort::internal
