#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The full names of the devices that a strategy was given; without any, all GPUs, or else the CPU.
// CPU devices that do not exist yet are made and share the cores. Throws InvalidArgument when two
// devices are the same, when local devices and those of another job are mixed, when a remote device
// does not name its task, and for an accelerator that this process does not have. Throws
// FailedPrecondition when the devices belong to several tasks.
std::vector<std::string> resolve_devices(std::string_view strategy,
                                         const std::vector<std::string>& names);

}  // namespace cohort::internal
