#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/multi_worker.h"
#include "cohort/scheduler_resolvers.h"
#include "distribute/multi_worker_extended.h"
#include "distribute/strategy_devices.h"

namespace cohort {
namespace {

std::unique_ptr<StrategyExtended> make_extended(std::shared_ptr<const ClusterResolver> resolver,
                                                const MultiWorkerOptions& options) {
  if (resolver == nullptr) {
    internal::raise(Code::InvalidArgument,
                    "[MultiWorkerMirroredStrategy] the cluster resolver is nullptr; leave it out "
                    "to find the cluster by the environment's variables");
  }
  std::vector<std::string> devices =
      internal::resolve_devices("MultiWorkerMirroredStrategy", options.devices);
  internal::log_info("[MultiWorkerMirroredStrategy] uses the devices {}", fmt::join(devices, ", "));
  return std::make_unique<internal::MultiWorkerExtended>(std::move(resolver), std::move(devices),
                                                         options);
}

std::shared_ptr<const ClusterResolver> or_environment(
    std::shared_ptr<const ClusterResolver> resolver) {
  if (resolver != nullptr) return resolver;
  return resolver_from_environment();
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerOptions& options)
    : Strategy(make_extended(or_environment(nullptr), options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    std::shared_ptr<const ClusterResolver> resolver, const MultiWorkerOptions& options)
    : Strategy(make_extended(std::move(resolver), options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    CommunicationImplementation communication, std::shared_ptr<const ClusterResolver> resolver)
    : Strategy(make_extended(or_environment(std::move(resolver)),
                             {.communication = {.implementation = communication}})) {}

internal::MultiWorkerExtended& MultiWorkerMirroredStrategy::impl() const {
  return static_cast<internal::MultiWorkerExtended&>(extended());
}

int MultiWorkerMirroredStrategy::num_workers() const { return impl().num_workers(); }
int MultiWorkerMirroredStrategy::worker_id() const { return impl().worker_id(); }
bool MultiWorkerMirroredStrategy::is_chief() const { return impl().is_chief(); }
Communicator MultiWorkerMirroredStrategy::communicator() const { return impl().communicator(); }

}  // namespace cohort
