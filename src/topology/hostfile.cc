#include "cohort/scheduler_resolvers.h"
#include "topology/hostfile_text.h"

namespace cohort {

HostfileClusterResolver::HostfileClusterResolver(const std::string& path,
                                                 const HostfileOptions& options) {
  constexpr const char* kOperation = "Hostfile";
  rpc_layer_ = options.rpc_layer;
  deal({internal::slot_addresses(internal::read_hostfile(path), options.port_base, kOperation),
        options.jobs, options.rank, kOperation});
}

}  // namespace cohort
