// Strategies with one replica by nature: OneDeviceStrategy, and the default strategy of code that
// uses none. Values are never distributed, and reductions return what they get.

#include "base/raise.h"
#include "distribute/contexts/context.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/variable_creation.h"

namespace cohort {
namespace internal {
namespace {

class SingleReplicaExtended : public StrategyExtended {
 public:
  StrategyTraits traits() const override { return {.is_single = true}; }

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

std::unique_ptr<StrategyExtended> make_one_device(std::string_view device) {
  constexpr std::string_view kName = "OneDeviceStrategy";
  std::string resolved = resolve_devices(kName, {std::string(device)}).front();
  warn_if_one_of_several(kName);
  return std::make_unique<OneDeviceExtended>(std::move(resolved));
}

}  // namespace

// Never destroyed: threads may ask for them until the process ends.
Strategy& default_strategy() {
  static auto& strategy = *new Strategy(std::make_unique<DefaultExtended>());
  return strategy;
}

ReplicaContext& default_replica_context() {
  static auto& context = *new ReplicaContext(default_strategy(), 0, 0, nullptr);
  return context;
}

}  // namespace internal

OneDeviceStrategy::OneDeviceStrategy(std::string_view device)
    : Strategy(internal::make_one_device(device)) {}

}  // namespace cohort
