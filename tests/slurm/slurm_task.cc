// What a process of a Slurm job step finds out, as one line: the node it runs on, its task, its
// address, its GPUs, the cluster.

#include <cstdlib>
#include <iostream>

#include "cohort/scheduler_resolvers.h"

int main() {
  const cohort::SlurmClusterResolver resolver({.jobs = {{"worker", 4}, {"ps", 1}},
                                               .port_base = 8888,
                                               .gpus_per_node = 6,
                                               .auto_set_gpu = true});
  const cohort::ClusterSpec spec = resolver.cluster_spec();
  std::cout << std::getenv("SLURMD_NODENAME") << ' ' << *resolver.task_type() << ' '
            << *resolver.task_id() << ' ' << resolver.master() << ' '
            << std::getenv("CUDA_VISIBLE_DEVICES") << ' ' << spec << std::endl;
}
