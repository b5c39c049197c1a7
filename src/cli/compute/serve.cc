#include <cstdio>

#include "base/raise.h"
#include "cli/compute/compute.h"
#include "cohort/cluster_resolver.h"
#include "cohort/scheduler_resolvers.h"
#include "cohort/server.h"

namespace cohort::cli {

void serve() {
  const auto resolver = resolver_from_environment();
  if (!resolver->cluster_spec()) {
    internal::raise(Code::InvalidArgument,
                    "[Serve] which task? Give --job, --task and --cluster, or TF_CONFIG; see "
                    "cohort serve --help");
  }
  Server server(resolver->cluster_spec(),
                {.job_name = resolver->task_type(), .task_index = resolver->task_id()});
  const ServerDef def = server.server_def();
  std::printf("serving /job:%s/task:%d at %s\n", def.job_name.c_str(), def.task_index,
              server.target().c_str());
  std::fflush(stdout);
  server.join();
}

}  // namespace cohort::cli
