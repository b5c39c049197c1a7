#include <fmt/ranges.h>

#include <cstdlib>

#include "base/log.h"
#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/parallel_all_reduce.h"
#include "distribute/replica_reductions.h"
#include "distribute/strategy_devices.h"
#include "distribute/undistributed.h"
#include "distribute/variables.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace {

class MirroredExtended : public StrategyExtended {
 public:
  MirroredExtended(std::vector<std::string> devices, const MirroredOptions& options)
      : devices_(std::move(devices)),
        options_(options),
        cross_device_ops_(options.cross_device_ops != nullptr
                              ? options.cross_device_ops
                              : default_cross_device_ops(devices_)) {
    const CrossDeviceOps& chosen = *cross_device_ops_;
    if (typeid(chosen) == typeid(DirectAllReduce)) direct_.emplace(devices_);
  }

  std::string name() const override { return "MirroredStrategy"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  std::vector<std::string> parameter_devices() const override { return devices_; }
  size_t num_local_replicas() const override { return devices_.size(); }
  bool supports_replica_pipelines() const override { return true; }
  bool shares_gradients() const override { return direct_.has_value(); }
  GuardOptions guards() const override { return options_.guards; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return create_mirrored_variable(devices_, next, request);
  }

  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options) override {
    internal::require_cross_replica_or_default(strategy(), "reduce_to");
    if (auto common = internal::reduce_undistributed(op, value, destinations, *cross_device_ops_,
                                                     num_replicas_in_sync())) {
      return *std::move(common);
    }
    return cross_device_ops_->reduce(op, value, destinations, options);
  }

  std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                std::span<const ReduceRequest> requests,
                                                const CommunicationOptions& options) override {
    internal::require_cross_replica_or_default(strategy(), "batch_reduce_to");
    return cross_device_ops_->batch_reduce(op, requests, options);
  }

  DistributedValue broadcast_to(const Tensor& value, const Destinations& destinations) override {
    internal::require_cross_replica_or_default(strategy(), "broadcast_to");
    return internal::broadcast_value(value, destinations, *cross_device_ops_);
  }

  DistributedValue gather_to(const DistributedValue& value, const Destinations& destinations,
                             int axis, const CommunicationOptions& options) override {
    internal::require_cross_replica_or_default(strategy(), "gather_to");
    if (value.kind() == DistributedValue::Kind::Plain) return value;
    return cross_device_ops_->gather(value, destinations, axis, options);
  }

  std::vector<Gradient> replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                           const std::vector<Gradient>& values,
                                           const CommunicationOptions& options) override {
    if (!direct_ || context.meeting() == nullptr || context.meeting()->shared_graph() != nullptr) {
      return StrategyExtended::replica_all_reduce(context, op, values, options);
    }
    return direct_->run(
        *context.meeting(), context.local_replica(),
        {.what = "all_reduce", .op = op, .values = values, .options = options},
        [&](const internal::ReplicaCalls& calls) { internal::reduce_for_all(*this, calls); });
  }

  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    return update_mirrored_copies(variable, change);
  }

  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<MirroredExtended>(devices_, options_);
  }

 private:
  const std::vector<std::string> devices_;
  const MirroredOptions options_;
  const std::shared_ptr<CrossDeviceOps> cross_device_ops_;
  // Where the algorithm is the one between threads: its quick form for replicas that meet.
  std::optional<internal::ParallelAllReduce> direct_;
};

std::unique_ptr<StrategyExtended> make_extended(const std::vector<std::string>& names,
                                                const MirroredOptions& options) {
  std::vector<std::string> devices = internal::resolve_devices("MirroredStrategy", names);
  internal::log_info("[MirroredStrategy] uses the devices {}", fmt::join(devices, ", "));
  if (std::getenv("TF_CONFIG") != nullptr) {
    internal::log_info(
        "[MirroredStrategy] ignores TF_CONFIG: it runs in one process; "
        "MultiWorkerMirroredStrategy reads it");
  }
  return std::make_unique<MirroredExtended>(std::move(devices), options);
}

}  // namespace

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : Strategy(make_extended({}, options)) {}
MirroredStrategy::MirroredStrategy(const std::vector<std::string>& devices,
                                   const MirroredOptions& options)
    : Strategy(make_extended(devices, options)) {}
MirroredStrategy::MirroredStrategy(std::initializer_list<const char*> devices,
                                   const MirroredOptions& options)
    : Strategy(make_extended({devices.begin(), devices.end()}, options)) {}

}  // namespace cohort
