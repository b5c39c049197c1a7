#pragma once

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort::test {

// Parameter servers and workers in this process, and a strategy over them.
struct CoordinatedCluster {
  CoordinatedCluster(int num_ps, int num_workers, const ParameterServerOptions& options = {})
      : cluster(num_ps, num_workers), resolver(cluster.spec()), strategy(resolver, options) {}

  LocalCluster cluster;
  SimpleClusterResolver resolver;
  ParameterServerStrategy strategy;
};

}  // namespace cohort::test
