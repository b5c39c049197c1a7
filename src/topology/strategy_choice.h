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

// What kStrategyVariable names. Without it: ParameterServer in a cluster with ps tasks, MultiWorker
// for one of several tasks that train, else Mirrored over several devices and OneDevice on one.
// `devices` counts those of this process. An evaluator is on its own. Throws as parse_strategy, and
// InvalidArgument for parameter servers without a chief, whose workers would wait forever.
StrategyChoice choose_strategy(const ClusterResolver& resolver, size_t devices);

}  // namespace cohort::internal
