#pragma once

#include <sstream>
#include <string>

#include "cohort/strategy.h"

// What tests of replicas say and compare again and again.
namespace cohort {

inline int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// The full name of a logical CPU of this process.
inline std::string device_name(int index) {
  return "/job:localhost/replica:0/task:0/device:CPU:" + std::to_string(index);
}

}  // namespace cohort
