#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cohort/cluster.h"

namespace cohort::internal {

// What TF_CONFIG says.
struct TFConfig {
  ClusterSpec cluster;
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::optional<std::string> rpc_layer;
  std::optional<std::string> session_master;
  std::optional<std::string> environment;
};

// Parses the value of TF_CONFIG. Throws InvalidArgument that says what is wrong and where. Unknown
// keys are ignored unless they look like a known key.
TFConfig parse_tf_config(std::string_view text);

}  // namespace cohort::internal
