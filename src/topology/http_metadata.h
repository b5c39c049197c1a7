#pragma once

#include <string>
#include <string_view>

#include "cohort/scheduler_resolvers.h"

namespace cohort::internal {

// One page of a cloud's list of machines.
struct InstancePage {
  TaskList addresses;  // of the running machines, with the port
  std::string next;    // the token of the next page; empty on the last page
};
// Reads a page by the paths in the options. Throws InvalidArgument if the answer is not such a list
// or a path is not a JSON pointer, FailedPrecondition if a running machine has no address.
InstancePage read_instance_page(std::string_view answer, const HttpMetadataOptions& options);

}  // namespace cohort::internal
