// The strategies whose replicas are all in this process: OneDeviceStrategy, MirroredStrategy,
// CentralStorageStrategy, and the default strategy of code that uses none.

#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"
#include "distribute/contexts/context.h"
#include "distribute/strategies/mirrored_strategy.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_creation.h"

namespace cohort {
namespace internal {
namespace {

// A strategy with one replica by nature. Values are never distributed, and reductions return what
// they get.
class SingleReplicaExtended : public StrategyExtended {
 public:
  std::vector<DistributedValue> batch_reduce_to(ReduceOp, std::span<const ReduceRequest> requests,
                                                const CommunicationOptions&) override {
    require_cross_replica_or_default(strategy(), "batch_reduce_to");
    std::vector<DistributedValue> values;
    for (const ReduceRequest& request : requests) values.push_back(request.value);
    return values;
  }
  DistributedValue gather_to(const DistributedValue& value, const Destinations&, int,
                             const CommunicationOptions&) override {
    require_cross_replica_or_default(strategy(), "gather_to");
    return value;
  }
  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    require_cross_replica_or_default(strategy(), "update");
    const EnterOrAssert inside(strategy(), "update");
    const UpdateScope updating(0);
    const DeviceScope there(variable.device());
    return DistributedValue(Gradient(change(variable, 0)));
  }
  std::vector<Gradient> replica_all_reduce(ReplicaContext&, const ReplicaReduction& own) override {
    return own.values;
  }
};

class DefaultExtended : public SingleReplicaExtended {
 public:
  std::string name() const override { return "DefaultStrategy"; }
  std::vector<std::string> worker_devices() const override { return raise_no_devices(); }
  std::vector<std::string> parameter_devices() const override { return raise_no_devices(); }
  StrategyTraits traits() const override { return {.is_single = true, .moves_input = false}; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return next(request);
  }
  void call_for_each_replica(const std::function<void(ReplicaContext&)>& body) override {
    require_cross_replica_or_default(strategy(), "call_for_each_replica");
    const ModeScope inside({&strategy(), &default_replica_context()});
    body(default_replica_context());
  }
  DistributedValue broadcast_to(const Tensor&, const Destinations&) override {
    raise(Code::Unimplemented,
          "[broadcast_to] the default strategy has no devices to broadcast to; open a strategy's "
          "scope");
  }

 private:
  [[noreturn]] static std::vector<std::string> raise_no_devices() {
    raise(Code::FailedPrecondition,
          "[DefaultStrategy] has no devices of its own; open a strategy's scope");
  }
};

class OneDeviceExtended : public SingleReplicaExtended, public CloneableStrategy {
 public:
  explicit OneDeviceExtended(std::string device) : device_(std::move(device)) {}

  std::string name() const override { return "OneDeviceStrategy"; }
  std::vector<std::string> worker_devices() const override { return {device_}; }
  StrategyTraits traits() const override { return {.is_single = true, .opens_device = true}; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return make_plain_variable(strategy(), device_, next, request);
  }
  DistributedValue broadcast_to(const Tensor& value, const Destinations&) override {
    require_cross_replica_or_default(strategy(), "broadcast_to");
    return value;
  }
  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<OneDeviceExtended>(device_);
  }

 private:
  const std::string device_;
};

constexpr const char* kHost = "CPU:0";

class CentralStorageExtended : public StrategyExtended, public CloneableStrategy {
 public:
  CentralStorageExtended(std::vector<std::string> compute_devices, std::string parameter_device)
      : compute_(std::move(compute_devices)),
        parameter_(std::move(parameter_device)),
        on_host_(canonical_device(kHost)) {}

  std::string name() const override { return "CentralStorageStrategy"; }
  std::vector<std::string> worker_devices() const override { return compute_; }
  std::vector<std::string> parameter_devices() const override { return {parameter_}; }

  Variable create_variable(const NextCreator& next, const VariableRequest& request) override {
    return compute_.size() == 1 ? make_plain_variable(strategy(), parameter_, next, request)
                                : make_aggregating_variable(strategy(), parameter_, next, request);
  }

  DistributedValue update_copies(const Variable& variable, const Change& change) override {
    require_cross_replica_or_default(strategy(), "update");
    const EnterOrAssert inside(strategy(), "update");
    return change_copies(variable, change);
  }

  std::unique_ptr<StrategyExtended> clone() const override {
    return std::make_unique<CentralStorageExtended>(compute_, parameter_);
  }

 protected:
  CrossDeviceOps& cross_device_ops() const override { return on_host_; }

 private:
  const std::vector<std::string> compute_;
  const std::string parameter_;
  mutable ReductionToOneDevice on_host_;
};

std::unique_ptr<StrategyExtended> make_one_device(std::string_view device) {
  constexpr std::string_view kName = "OneDeviceStrategy";
  std::string resolved = resolve_devices(kName, {std::string(device)}).front();
  warn_if_one_of_several(kName);
  return std::make_unique<OneDeviceExtended>(std::move(resolved));
}

std::unique_ptr<StrategyExtended> make_mirrored(const std::vector<std::string>& names,
                                                const MirroredOptions& options) {
  std::vector<std::string> devices = resolve_devices("MirroredStrategy", names);
  log_info("[MirroredStrategy] uses the devices {}", fmt::join(devices, ", "));
  warn_if_one_of_several("MirroredStrategy");
  return std::make_unique<MirroredExtended>(std::move(devices), options);
}

std::unique_ptr<StrategyExtended> make_central_storage(const CentralStorageOptions& options) {
  constexpr std::string_view kName = "CentralStorageStrategy";
  std::vector<std::string> compute = resolve_devices(kName, options.compute_devices);
  std::string parameter = options.parameter_device;
  if (parameter.empty()) parameter = compute.size() == 1 ? compute.front() : kHost;
  parameter = resolve_devices(kName, {parameter}).front();
  log_info("[CentralStorageStrategy] computes on {} and keeps variables on {}",
           fmt::join(compute, ", "), parameter);
  warn_if_one_of_several(kName);
  return std::make_unique<CentralStorageExtended>(std::move(compute), std::move(parameter));
}

}  // namespace

MirroredExtended::MirroredExtended(std::vector<std::string> devices, const MirroredOptions& options)
    : devices_(std::move(devices)),
      options_(options),
      cross_device_ops_(options.cross_device_ops != nullptr ? options.cross_device_ops
                                                            : default_cross_device_ops(devices_)) {}

StrategyTraits MirroredExtended::traits() const {
  return {.supports_replica_pipelines = true, .guards = options_.guards};
}

std::unique_ptr<StrategyExtended> MirroredExtended::clone() const {
  return std::make_unique<MirroredExtended>(devices_, options_);
}

// Never destroyed: threads may ask for them until the process ends.
Strategy& default_strategy() {
  static auto& strategy = *new Strategy(std::make_unique<DefaultExtended>());
  return strategy;
}

ReplicaContext& default_replica_context() {
  static auto& context = *new ReplicaContext(
      internal::Access::make<ReplicaContext>(default_strategy(), 0, size_t{0}, nullptr));
  return context;
}

}  // namespace internal

OneDeviceStrategy::OneDeviceStrategy(std::string_view device)
    : Strategy(internal::make_one_device(device)) {}

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : Strategy(internal::make_mirrored({}, options)) {}
MirroredStrategy::MirroredStrategy(const std::vector<std::string>& devices,
                                   const MirroredOptions& options)
    : Strategy(internal::make_mirrored(devices, options)) {}
MirroredStrategy::MirroredStrategy(std::initializer_list<const char*> devices,
                                   const MirroredOptions& options)
    : Strategy(internal::make_mirrored({devices.begin(), devices.end()}, options)) {}

CentralStorageStrategy::CentralStorageStrategy(const CentralStorageOptions& options)
    : Strategy(internal::make_central_storage(options)) {}

}  // namespace cohort
