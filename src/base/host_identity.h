#pragma once

#include <string>

namespace cohort::internal {

// Two processes with equal texts are on one host and can share memory: they were started under the
// same boot of the same system, are in one network namespace (names of Unix sockets belong to one),
// and run as one user.
std::string host_identity();

std::string host_name();  // "?" if the system does not say

// "process 4711 on node3"
std::string process_description();

}  // namespace cohort::internal
