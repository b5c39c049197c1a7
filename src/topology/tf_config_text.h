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

// Reads it from text. InvalidArgument says what is wrong and where; keys that it does not know are
// ignored unless they look like a known one.
TFConfig parse_tf_config(std::string_view text);

}  // namespace cohort::internal
