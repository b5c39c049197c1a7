// Clusters of real processes on this host, beside what they are made of and what others do.
//
//   bench_cluster            all of it
//   bench_cluster null       one part: null, large, push, training, opening

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "bare_grpc.h"
#include "parts.h"
#include "support/listed_cluster.h"
#include "zeromq/zeromq.h"

namespace cohort::bench {
namespace {

// A task: addresses of the ps tasks, those of the workers, job, number; "train" for one that
// trains.
int be_task(const std::vector<std::string>& words) {
  const ClusterSpec cluster = test::listed_cluster(words[0], words[1]);
  const int index = std::stoi(words[3]);
  if (words.size() > 4) train_worker(cluster, index);
  Server(cluster, {.job_name = words[2], .task_index = index}).join();
  return 0;
}

int be_peer(const std::string& kind, const std::string& address) {
  if (kind == "zeromq-server") serve_zeromq(address);
  BareGrpcServer(address).wait();
  return 0;
}

void measure(const std::string& part) {
  const auto wanted = [&](const char* name) { return part.empty() || part == name; };
  std::printf("%-44s %13s %13s\n", "", "ours", "theirs");
  if (wanted("null")) null_steps();
  if (wanted("large")) large_tensors();
  if (wanted("push")) push_and_pull();
  if (wanted("training")) training();
  if (wanted("opening")) opening();
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) try {
  using namespace cohort::bench;  // NOLINT: a program
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() > 1) {  // not longer than who measures
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) return 1;
  }
  if (words.size() > 3) return be_task(words);
  if (words.size() == 2) return be_peer(words[0], words[1]);
  measure(words.empty() ? "" : words[0]);
} catch (const cohort::Error& error) {
  std::fprintf(stderr, "bench_cluster: %s\n", error.what());
  return 1;
}
