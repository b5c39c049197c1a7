#include <fmt/ranges.h>

#include "base/log.h"
#include "distribute/lone_process.h"
#include "distribute/mirrored_extended.h"
#include "distribute/strategy_devices.h"

namespace cohort {
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
