#pragma once

#include <atomic>

#include "base/mutex.h"
#include "cohort/parameter_server.h"
#include "cohort/sharded_variable.h"
#include "coordinator/group_updates.h"
#include "coordinator/parameter_servers.h"
#include "coordinator/remote_variable.h"
#include "distribute/remote_workers.h"

namespace cohort::internal {

class ClusterCoordinatorState;

// What a ParameterServerStrategy is made of.
class ParameterServerExtended : public StrategyExtended, public RemoteWorkers {
 public:
  ParameterServerExtended(const ClusterResolver& resolver, const ParameterServerOptions& options);

  std::string name() const override { return "ParameterServerStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  std::vector<std::string> parameter_devices() const override;
  const ClusterResolver* cluster_resolver() const override { return &resolver_; }
  StrategyTraits traits() const override { return {.fills_partial_steps = false}; }
  InputContext input_context() const override;

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override;
  void call_for_each_replica(const std::function<void(ReplicaContext&)>& body) override;
  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options) override;
  DistributedValue broadcast_to(const Tensor& value, const Destinations& destinations) override;
  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override;
  DistributedValue update_copies(const Variable& variable, const Change& change) override;
  void warn_outside(std::string_view what) const override;
  bool groups_gradients() const override;
  Tensor add_to_group(const Gradients& gradients, const std::vector<Variable>& variables,
                      const Variable& count, const Update& update) override;

  const ParameterServerOptions& options() const { return options_; }
  const ClusterSpec& cluster() const { return cluster_; }
  ParameterServers& servers() const { return *servers_; }
  ParameterServerPlan plan() const;

  // The coordinator's state, which all its handles share; null when there is none.
  std::weak_ptr<ClusterCoordinatorState> coordinator;
  std::atomic<bool> is_shut_down = false;  // a coordinator has ended the servers

 private:
  // A variable on one server, as replicas use it.
  Variable place(const VariableRequest& request, const Tensor& value,
                 const std::optional<DeviceName>& asked);
  // The value that creators which were there before the scope, and saw the request, make; and the
  // device that they asked for.
  struct Made {
    Tensor value;
    VariableOptions options;
    std::optional<DeviceName> asked;
  };
  static Made make_here(const NextCreator& next, const VariableRequest& request);
  Variable create_in_parts(const NextCreator& next, const VariableRequest& request,
                           const PartInitializer& initializer, int64_t parts);
  // Into how many parts the partitioner cuts the variable; nullopt when it stays whole.
  std::optional<int64_t> parts_of(const std::string& variable, const Spec& spec) const;
  Variable place_parts(const VariableRequest& request, const Tensor& value, int64_t parts,
                       const std::optional<DeviceName>& asked);
  // Throws ResourceExhausted when it has no room for so many bytes more.
  void check_room(const std::string& variable, const DeviceName& device, int64_t bytes) const;
  // Assigns the first value. An error for want of memory is told with the plan.
  void begin(RemoteVariable& variable, const Tensor& value) const;
  const DeviceName& next_server();
  void note(const RemoteVariable& variable, const DeviceName& device, const Tensor& value);
  // Takes variables that are gone out of the plan, with their bytes. The caller holds the mutex.
  void forget_released() const;

  const ClusterResolver& resolver_;
  const ClusterSpec cluster_;
  const ParameterServerOptions options_;
  const std::vector<std::string> devices_;
  const std::shared_ptr<ParameterServers> servers_;
  ReductionToOneDevice cross_device_ops_;
  mutable GroupUpdates group_updates_;

  mutable Mutex mutex_;
  size_t variables_ = 0;  // counted for the round; guarded by mutex_, as the next
  mutable ParameterServerPlan plan_;
  // Of the plan's variables, in their order: expired with the variable, and the bytes of a step.
  struct Planned {
    std::weak_ptr<const void> lease;
    int64_t bytes_per_step;
  };
  mutable std::vector<Planned> planned_;
};

// While it lives, this thread traces code for the workers.
class [[nodiscard]] TracingForWorkers {
 public:
  TracingForWorkers();
  ~TracingForWorkers();
  TracingForWorkers(const TracingForWorkers&) = delete;
  TracingForWorkers& operator=(const TracingForWorkers&) = delete;
  static bool active();

 private:
  const bool outer_;
};

}  // namespace cohort::internal
