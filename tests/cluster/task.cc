// A task of a cluster, as a process: task PS_ADDRESSES WORKER_ADDRESSES JOB INDEX. Addresses are
// separated by commas. Serves until it is told to stop.
//
// Or a client, task TARGET, that waits in a step on the ps for ever.

#include <cohort/cohort.h>
#include <cohort/graph_training.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

#include "support/listed_cluster.h"

namespace {

// Functions of the program that tests schedule.
cohort::Tensor twice(cohort::Tensor x) { return x * 2.f; }
COHORT_FUNCTION(cluster_test_twice, twice);
cohort::Tensor throws(cohort::Tensor) { throw std::runtime_error("the disk is full"); }
COHORT_FUNCTION(cluster_test_throws, throws);
cohort::Tensor wrong_shape(cohort::Tensor) { return cohort::Tensor({1.f, 2.f}); }
COHORT_FUNCTION(cluster_test_wrong_shape, wrong_shape);
cohort::Tensor waits(cohort::Tensor x) {
  pause();  // until the process ends
  return x;
}
COHORT_FUNCTION(cluster_test_waits, waits);

void wait_in_a_step(const std::string& target) {
  cohort::Graph graph;
  auto building = graph.as_default();
  auto on = cohort::device("/job:ps/task:0");
  cohort::FifoQueue queue({.components = {{cohort::kFloat32}}, .name = "never"});
  const cohort::Tensor got = queue.dequeue()[0];
  cohort::Session(target).run(got);
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
  if (argc == 2) wait_in_a_step(argv[1]);
  if (argc != 5) return 2;
  const cohort::ClusterSpec cluster = cohort::test::listed_cluster(argv[1], argv[2]);
  const cohort::Status status = cohort::capture_status([&] {
    cohort::Server server(cluster, {.job_name = argv[3], .task_index = std::stoi(argv[4])},
                          {.silence_limit = std::chrono::seconds(3)});
    std::puts("serving");
    std::fflush(stdout);
    server.join();
  });
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
