#include "cohort/coordinator.h"

#include "base/raise.h"
#include "coordinator/coordinator_state.h"
#include "coordinator/per_worker_data.h"
#include "distribute/distributed_input.h"

namespace cohort {
namespace internal {
namespace {

std::shared_ptr<ClusterCoordinatorState> state_of(Strategy& strategy,
                                                  const ClusterCoordinatorOptions& options) {
  auto* extended = dynamic_cast<ParameterServerExtended*>(&strategy.extended());
  if (extended == nullptr) {
    raise(Code::InvalidArgument,
          "[ClusterCoordinator] needs a ParameterServerStrategy, got a {}; other strategies run "
          "their steps themselves",
          strategy.extended().name());
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::shared_ptr<ClusterCoordinatorState> state = extended->coordinator.lock();
  if (state) return state;
  state = std::make_shared<ClusterCoordinatorState>(strategy, *extended, options);
  extended->coordinator = state;
  return state;
}

}  // namespace

}  // namespace internal

ClusterCoordinator::ClusterCoordinator(Strategy& strategy, const ClusterCoordinatorOptions& options)
    : state_(internal::state_of(strategy, options)) {}

std::shared_ptr<internal::RemoteResult> ClusterCoordinator::enqueue(
    std::optional<int> worker, const std::function<internal::TracedCall()>& trace,
    const internal::RemoteArguments& remote, std::shared_ptr<const void>& structure) {
  return state_->schedule(worker, trace, remote.impl(), structure);
}

RemoteValue<std::vector<Tensor>> ClusterCoordinator::schedule_native(
    std::string_view name, const std::vector<Tensor>& inputs,
    const std::vector<TensorSpec>& outputs) {
  return schedule(
      function([&](const std::vector<Tensor>& given) { return call_native(name, given, outputs); },
               {.name = std::string(name)}),
      inputs);
}

void ClusterCoordinator::join() { state_->join(); }
bool ClusterCoordinator::done() { return state_->done(); }
int ClusterCoordinator::num_workers() const { return state_->num_workers(); }
void ClusterCoordinator::shutdown_cluster() { state_->shut_down(); }
int ClusterCoordinator::add_worker(const std::string& address) {
  return state_->add_worker(address);
}

std::vector<Tensor> ClusterCoordinator::read_all(const PerWorkerVariable& variable) {
  return fetch(run_on_each_worker([&] { return variable.variable().read_value(); }));
}

PerWorkerDataset ClusterCoordinator::make_per_worker(
    const std::function<internal::PerWorkerSpec()>& make) {
  return PerWorkerDataset(
      std::make_shared<const internal::PerWorkerData>(state_->num_workers(), make));
}

PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(const data::Dataset& dataset) {
  return make_per_worker([dataset] { return internal::PerWorkerSpec(dataset); });
}

PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(const DistributedDataset& dataset) {
  return make_per_worker([dataset] {
    const auto& input = dataset.input();
    return internal::PerWorkerSpec(input->rebuild ? DistributedDataset(input->rebuild()) : dataset);
  });
}

}  // namespace cohort
