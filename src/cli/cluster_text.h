#pragma once

#include <string>

#include "cohort/cluster.h"

namespace cohort::cli {

// A cluster as people type it: "ps=h0:2222;worker=h1:2222,h2:2222", or JSON as in TF_CONFIG's
// "cluster". InvalidArgument says what is wrong where.
ClusterSpec parse_cluster(const std::string& text);
// JSON for TF_CONFIG, with the task when it has a name.
std::string tf_config_of(const ClusterSpec& cluster, const std::string& job, int index);

}  // namespace cohort::cli
