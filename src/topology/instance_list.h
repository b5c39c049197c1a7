#pragma once

#include <string>
#include <string_view>

#include "cohort/scheduler_resolvers.h"

namespace cohort::internal {

// One page of a cloud's list of machines.
struct InstancePage {
  TaskList addresses;  // of the running ones, with the port
  std::string next;    // by which the next page is asked for; empty on the last
};
// Reads it by the paths of the options. InvalidArgument for what is no such list, or a path that is
// none; FailedPrecondition for a running machine without an address.
InstancePage read_instance_page(std::string_view answer, const HttpMetadataOptions& options);

}  // namespace cohort::internal
