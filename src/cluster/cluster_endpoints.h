#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/server.h"
#include "transport/connection.h"

namespace cohort::internal {

// How this process takes part in a cluster: as a task that listens, or as a client. `details` is
// a text for those who ask for the status of the task; see EndpointOptions.
std::unique_ptr<Endpoint> make_task_endpoint(const ServerDef& def, const ServerOptions& options,
                                             Endpoint::Accept accept,
                                             std::function<std::string()> details = {});
// The same task, to call tasks of other clusters with. It does not listen.
std::unique_ptr<Endpoint> make_outbound_endpoint(const Peer& task, const Credentials& credentials);
std::unique_ptr<Endpoint> make_client_endpoint(const Credentials& credentials);

}  // namespace cohort::internal
