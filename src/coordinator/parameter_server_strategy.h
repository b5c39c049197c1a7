#pragma once

#include <atomic>
#include <set>

#include "base/mutex.h"
#include "cohort/cluster_resolver.h"
#include "cohort/parameter_server.h"
#include "cohort/sharded_variable.h"
#include "coordinator/group_updates.h"
#include "coordinator/parameter_servers.h"
#include "coordinator/remote_variables.h"
#include "distribute/strategies/worker_strategies.h"
#include "graph/tracing.h"

namespace cohort::internal {

class ClusterCoordinatorState;

// Throws InvalidArgument unless the cluster is one for parameter servers and the resolver's task,
// if it names one, has a role in the cluster.
void check_roles(const ClusterResolver& resolver);

// The implementation of ParameterServerStrategy.
class ParameterServerExtended : public StrategyExtended,
                                public CrossWorkerInput,
                                public RemoteWorkers {
 public:
  ParameterServerExtended(const ClusterResolver& resolver, const ParameterServerOptions& options);

  std::string name() const override { return "ParameterServerStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  std::vector<std::string> parameter_devices() const override;
  StrategyTraits traits() const override {
    return {.fills_partial_steps = false, .cluster_resolver = &resolver_};
  }
  InputContext input_context() const override;

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override;
  void call_for_each_replica(const std::function<void(ReplicaContext&)>& body) override;
  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override;
  DistributedValue broadcast_to(const Tensor& value, const Destinations& destinations) override;
  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override;
  DistributedValue update_copies(const Variable& variable, const Change& change) override;
  void warn_outside(std::string_view what) const override;
  bool groups_gradients() const override;
  Tensor add_to_group(const Gradients& gradients, const std::vector<Variable>& variables,
                      const Variable& count, const Update& update) override;
  std::shared_ptr<ClusterCoordinatorState> coordinator_state(
      const ClusterCoordinatorOptions& options) override;
  bool has_ended() const override { return is_shut_down; }

  const ParameterServerOptions& options() const { return options_; }
  const ClusterSpec& cluster() const { return cluster_; }
  ParameterServers& servers() const { return *servers_; }
  ParameterServerPlan plan() const;
  // The names of the variables on that task, in the order of their creation.
  std::vector<std::string> variables_on(const std::string& task) const;

  std::atomic<bool> is_shut_down = false;  // a coordinator has ended the servers

 private:
  // A variable on one server, as replicas use it.
  Variable place(const VariableRequest& request, const Tensor& value,
                 const std::optional<DeviceName>& asked);
  // The value that the creators outside the strategy's scope make, and the device that they ask
  // for.
  struct Made {
    Tensor value;
    VariableOptions options;
    std::optional<DeviceName> asked;
  };
  static Made make_here(const NextCreator& next, const VariableRequest& request);
  Variable create_in_parts(const NextCreator& next, const VariableRequest& request,
                           const PartInitializer& initializer, int64_t parts);
  // Into how many parts the partitioner cuts the variable; nullopt for one part.
  std::optional<int64_t> parts_of(const std::string& variable, const Spec& spec) const;
  Variable place_parts(const VariableRequest& request, const Tensor& value, int64_t parts,
                       const std::optional<DeviceName>& asked);
  // Throws ResourceExhausted when the device has no room for so many more bytes.
  void check_room(const std::string& variable, const DeviceName& device, int64_t bytes) const;
  // Assigns the first value. An error that memory is short contains the plan.
  void begin(RemoteVariable& variable, const Tensor& value) const;
  const DeviceName& next_server();
  void note(const RemoteVariable& variable, const DeviceName& device, const Tensor& value);
  // Removes variables that are gone from the plan. The caller holds the mutex.
  void forget_released() const;

  const ClusterResolver& resolver_;
  const ClusterSpec cluster_;
  const ParameterServerOptions options_;
  const std::vector<std::string> devices_;
  const std::shared_ptr<ParameterServers> servers_;
  ReductionToOneDevice cross_device_ops_;
  mutable GroupUpdates group_updates_;

  Mutex coordinator_mutex_;
  std::weak_ptr<ClusterCoordinatorState> coordinator_;  // guarded by coordinator_mutex_

  mutable Mutex mutex_;
  size_t variables_ = 0;  // counted for the round robin; guarded by mutex_, as the next
  mutable ParameterServerPlan plan_;
  mutable std::set<std::string, std::less<>> warned_;  // calls that warn_outside() has named
  // The plan's variables in their order: a lease that expires with the variable, and the bytes that
  // a step moves.
  struct Planned {
    std::weak_ptr<const void> lease;
    int64_t bytes_per_step;
  };
  mutable std::vector<Planned> planned_;
};

}  // namespace cohort::internal
