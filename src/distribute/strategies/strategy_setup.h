#pragma once

#include <string>
#include <string_view>
#include <vector>

// What a strategy looks at when it is made: its devices, and whether its process is one of several.
namespace cohort::internal {

// The full names of the devices that a strategy was given; without any, all GPUs, or else the CPU.
// CPU devices that do not exist yet are made and share the cores. Throws InvalidArgument when two
// devices are the same, when local devices and those of another job are mixed, when a remote device
// does not name its task, and for an accelerator that this process does not have. Throws
// FailedPrecondition when the devices belong to several tasks.
std::vector<std::string> resolve_devices(std::string_view strategy,
                                         const std::vector<std::string>& names);

// For a strategy of one process: warns, once per process, if this process was started as one of
// several, each of which would train its own model. `remedy` trains one model together.
void warn_if_one_of_several(std::string_view strategy,
                            std::string_view remedy = "use MultiWorkerMirroredStrategy");

// Says that this process works together with the others: no later warning.
void note_joint_training();

}  // namespace cohort::internal
