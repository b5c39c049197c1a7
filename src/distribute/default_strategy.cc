#include "distribute/default_strategy.h"

#include "base/raise.h"
#include "distribute/context.h"
#include "distribute/single_replica.h"

namespace cohort::internal {
namespace {

class DefaultExtended : public SingleReplicaExtended {
 public:
  std::string name() const override { return "DefaultStrategy"; }
  std::vector<std::string> worker_devices() const override { return raise_no_devices(); }
  std::vector<std::string> parameter_devices() const override { return raise_no_devices(); }
  std::vector<std::string> input_devices() const override { return {""}; }

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

}  // namespace cohort::internal
