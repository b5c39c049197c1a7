#pragma once

#include <string>

namespace cohort::cli {

// The address of this machine that the way to `host` starts from: the one that host sees. NotFound
// when the name is none.
std::string own_address_towards(const std::string& host);
// The address by which other machines most likely reach this one: of its host name; 127.0.0.1 when
// that is not known.
std::string own_address();

}  // namespace cohort::cli
