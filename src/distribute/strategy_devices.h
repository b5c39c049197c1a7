#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The full names of the devices that a strategy was given, all GPUs (or else the CPU) when it was
// given none. CPU devices that do not exist yet are made: they share the cores. Throws
// InvalidArgument when two are the same, when local ones and those of another job are mixed, when a
// remote one does not name its task, and for an accelerator that this process does not have;
// FailedPrecondition when they belong to several tasks.
std::vector<std::string> resolve_devices(std::string_view strategy,
                                         const std::vector<std::string>& names);

}  // namespace cohort::internal
