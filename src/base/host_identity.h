#pragma once

#include <string>

namespace cohort::internal {

// Two processes with equal texts are on one host and can share memory: they were started under the
// same boot of the same system, are in one network namespace (names of Unix sockets belong to one),
// and run as one user. Where the system does not tell the id of its boot, the text is that of this
// process alone.
std::string host_identity(const std::string& boot_id_file = "/proc/sys/kernel/random/boot_id");

std::string host_name();  // "?" if the system does not say

// "process 4711 on node3"
std::string process_description();

}  // namespace cohort::internal
