#pragma once

#include <string_view>

#include "cohort/cluster_resolver.h"

namespace cohort::internal {

// The ways to train that the start of a program chooses from.
enum class StrategyChoice { OneDevice, Mirrored, CentralStorage, MultiWorker, ParameterServer };

// The variable that names the choice.
inline constexpr char kStrategyVariable[] = "COHORT_STRATEGY";
// "mirrored" is Mirrored and so on. Throws InvalidArgument for another name. The message begins
// with `source`, which says where the name is from: "[Run] --strategy".
StrategyChoice parse_strategy(std::string_view name, std::string_view source);

// The strategy that kStrategyVariable names. Without the variable: ParameterServer in a cluster
// with ps tasks, MultiWorker for one of several tasks that train, else Mirrored over several
// devices and OneDevice on one. `devices` counts the devices of this process. An evaluator trains
// alone. Throws as parse_strategy, and InvalidArgument for parameter servers without a chief,
// because their workers would wait forever.
StrategyChoice choose_strategy(const ClusterResolver& resolver, size_t devices);

}  // namespace cohort::internal
