#pragma once

#include <cstdint>
#include <string>

namespace cohort::internal {

// Two processes with equal texts are on one host and can share memory: they were started under the
// same boot of the same system, are in one network namespace (names of Unix sockets belong to one),
// and run as one user.
std::string host_identity();

std::string host_name();  // "?" if the system does not say

// "process 4711 on node3"
std::string process_description();

// 64 bits of the system's random source, for seeds, identities and names that must not repeat.
uint64_t random_number();

}  // namespace cohort::internal
