#pragma once

#include <map>
#include <set>
#include <string>

#include "base/file_descriptor.h"

namespace cohort::cli {

// A port that the system chose, kept for one task of a run.
//
// The port is bound and does not listen. Linux does not hand such a port out, and lets a server
// that names it and sets SO_REUSEADDR (as gRPC does) listen there. So the launcher holds the port
// before the task takes it, while the task has it, and until the restarted task takes it again. A
// second server at the port is still refused.
class HeldPort {
 public:
  // `host` is an address of this machine. Throws ResourceExhausted if it has no free port.
  explicit HeldPort(const std::string& host);

  int number() const { return number_; }

 private:
  internal::FileDescriptor socket_;
  int number_ = 0;
};

// The addresses of a host name, IPv4 and IPv6; empty if it has none.
std::set<std::string> addresses_of(const std::string& host);
// The addresses of this machine, with the names of their interfaces.
std::map<std::string, std::string> local_interfaces();
// The address by which `host` sees this machine. Throws NotFound if the name has no address.
std::string local_address_towards(const std::string& host);
// The address by which other machines most likely reach this one: that of its host name, or else
// 127.0.0.1.
std::string local_address();

}  // namespace cohort::cli
