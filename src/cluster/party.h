#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/cluster.h"
#include "cohort/server.h"
#include "transport/party.h"

namespace cohort::internal {

// How this process takes part in a cluster: as a task that listens, or as a client. `details` is
// what a task tells who asks for its status; see EndpointOptions.
std::unique_ptr<Party> make_task_party(const ServerDef& def, const ServerOptions& options,
                                       Party::Accept accept,
                                       std::function<std::string()> details = {});
// The task again, as it calls tasks of other clusters: nobody connects to it.
std::unique_ptr<Party> make_visitor_party(const Peer& task, const Credentials& credentials);
std::unique_ptr<Party> make_client_party(const Credentials& credentials);

}  // namespace cohort::internal
