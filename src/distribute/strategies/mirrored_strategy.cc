#include "distribute/strategies/mirrored_strategy.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "distribute/strategies/strategy_setup.h"

namespace cohort {
namespace internal {

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

}  // namespace internal

namespace {

std::unique_ptr<StrategyExtended> make_extended(const std::vector<std::string>& names,
                                                const MirroredOptions& options) {
  std::vector<std::string> devices = internal::resolve_devices("MirroredStrategy", names);
  internal::log_info("[MirroredStrategy] uses the devices {}", fmt::join(devices, ", "));
  internal::warn_if_one_of_several("MirroredStrategy");
  return std::make_unique<internal::MirroredExtended>(std::move(devices), options);
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
