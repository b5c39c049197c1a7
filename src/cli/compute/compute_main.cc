// cohort-compute: the commands that need LibTorch. The program `cohort` checks the options and
// starts it.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/raise.h"
#include "cli/compute/inspect.h"
#include "cohort/cluster_resolver.h"
#include "cohort/error.h"
#include "cohort/ops.h"
#include "cohort/scheduler_resolvers.h"
#include "cohort/server.h"

namespace cohort::cli {
namespace {

// Serves the task that the environment names, until it is told to stop.
void serve() {
  const auto resolver = resolver_from_environment();
  if (!resolver->cluster_spec()) {
    internal::raise(Code::InvalidArgument,
                    "[Serve] the task to serve is not known; give --job, --task and --cluster, or "
                    "TF_CONFIG; see cohort serve --help");
  }
  Server server(resolver->cluster_spec(),
                {.job_name = resolver->task_type(), .task_index = resolver->task_id()});
  const ServerDef def = server.server_def();
  std::printf("serving /job:%s/task:%d at %s\n", def.job_name.c_str(), def.task_index,
              server.target().c_str());
  std::fflush(stdout);
  server.join();
}

// Prints how fast a matrix product is, in billions of operations per second; for `cohort doctor`.
void measure_product() {
  constexpr int64_t kSize = 512;
  constexpr int kTimes = 5;
  const Tensor a = ones({kSize, kSize}), b = ones({kSize, kSize});
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    matmul(a, b);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  std::printf("%.1f\n", 2e-9 * kSize * kSize * kSize / best);
}

int run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  if (command == "serve") {
    serve();
  } else if (command == "inspect" && words.size() == 6) {  // KIND PATH VERIFY DOT LIMIT
    inspect(
        words[1], words[2],
        {.verify = words[3] == "1", .dot = words[4] == "1", .limit = std::atoi(words[5].c_str())});
  } else if (command == "product") {
    measure_product();
  } else {
    std::fprintf(stderr, "cohort-compute is started by the command cohort; see cohort --help\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace cohort::cli

int main(int argc, char** argv) {
  int code = 0;
  const cohort::Status status = cohort::capture_status([&] {
    code = cohort::cli::run({argv + 1, argv + argc});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    cohort::internal::raise(cohort::Code::DataLoss, "the output cannot be written: {}",
                            std::strerror(errno));
  });
  if (status.ok()) return code;
  std::fflush(stdout);  // prints what was found before the error
  std::fprintf(stderr, "cohort: %s\n", status.message.c_str());
  return status.code == cohort::Code::InvalidArgument ? 2 : 1;
}
