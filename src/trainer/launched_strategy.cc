#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "cohort/coordinator.h"
#include "cohort/multi_worker.h"
#include "cohort/scheduler_resolvers.h"
#include "cohort/strategy_extended.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/strategies/worker_strategies.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

using Resolver = std::shared_ptr<const ClusterResolver>;

// A base class makes sure that the resolver exists before the strategy and outlives it.
struct KeptResolver {
  Resolver resolver;
};

class ChiefStrategy : KeptResolver, public ParameterServerStrategy {
 public:
  explicit ChiefStrategy(Resolver given)
      : KeptResolver{std::move(given)}, ParameterServerStrategy(*resolver) {}

  // The servers of a chief that failed stay, because the chief may be started again.
  ~ChiefStrategy() override {
    if (std::uncaught_exceptions() > exceptions_before_) return;
    if (dynamic_cast<internal::RemoteWorkers&>(extended()).has_ended()) return;
    const Status status = capture_status([this] { ClusterCoordinator(*this).shutdown_cluster(); });
    if (!status.ok()) {
      internal::log_warning("[strategy_from_environment] cannot shut down the cluster: {}",
                            status.message);
    }
  }

 private:
  const int exceptions_before_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Strategy> strategy_from_environment() {
  using internal::StrategyChoice;
  const Resolver resolver = resolver_from_environment();
  const std::vector<std::string> devices =
      internal::resolve_devices("strategy_from_environment", {});
  switch (internal::choose_strategy(*resolver, devices.size())) {
    case StrategyChoice::OneDevice:
      return std::make_unique<OneDeviceStrategy>(devices.front());
    case StrategyChoice::Mirrored:
      return std::make_unique<MirroredStrategy>(devices);
    case StrategyChoice::CentralStorage:
      return std::make_unique<CentralStorageStrategy>();
    case StrategyChoice::MultiWorker:
      return std::make_unique<MultiWorkerMirroredStrategy>(resolver);
    case StrategyChoice::ParameterServer:
      break;
  }
  if (serve_task(*resolver)) std::exit(0);
  return std::make_unique<ChiefStrategy>(resolver);
}

}  // namespace cohort
