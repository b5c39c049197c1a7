#include "coordinator/remote_result.h"

#include "base/raise.h"

namespace cohort::internal {

RemoteValueStatus status_of(const RemoteResult& result) { return result.status(); }
const std::vector<Tensor>& tensors_of(const RemoteResult& result) { return result.wait(); }

RemoteArguments::RemoteArguments() : impl_(std::make_unique<Impl>()) {}
RemoteArguments::~RemoteArguments() = default;

std::vector<Tensor> RemoteArguments::add(std::shared_ptr<const RemoteResult> result) {
  return impl_->add({std::move(result)}, false);
}

std::vector<Tensor> RemoteArguments::add_per_worker(Results results) {
  return impl_->add(std::move(results), true);
}

std::vector<Tensor> RemoteArguments::Impl::add(Results results, bool per_worker) {
  const auto graph = std::make_shared<FunctionGraph>();
  std::vector<Tensor> symbols;
  for (const Spec& spec : results[0]->specs()) {
    symbols.push_back(graph->add_argument(spec.dtype, spec.shape));
  }
  entries_.push_back({graph, std::move(results), per_worker});
  return symbols;
}

std::optional<RemoteArgument> RemoteArguments::Impl::find(const Tensor& tensor) const {
  if (!tensor.is_symbolic()) return std::nullopt;
  for (const Entry& entry : entries_) {
    if (!entry.symbols->owns(tensor)) continue;
    return RemoteArgument{entry.results,
                          static_cast<size_t>(entry.symbols->node_output(tensor).node)};
  }
  return std::nullopt;
}

void RemoteArguments::Impl::check(int workers, bool allowed) const {
  for (const Entry& entry : entries_) {
    if (!entry.per_worker && !allowed) {
      raise(Code::InvalidArgument,
            "[Coordinator] a scheduled function takes no RemoteValue: fetch() it first, "
            "do both in one function, or ask for ClusterCoordinatorOptions::remote_arguments");
    }
    if (entry.per_worker && entry.results.size() != static_cast<size_t>(workers)) {
      raise(Code::InvalidArgument,
            "[Coordinator] PerWorkerValues needs one value for each worker, got {} values for {} "
            "workers",
            entry.results.size(), workers);
    }
    for (const auto& result : entry.results) result->check();
  }
}

void throw_no_values() {
  raise(Code::InvalidArgument,
        "[Coordinator] PerWorkerValues needs one value for each worker, got none");
}

}  // namespace cohort::internal
