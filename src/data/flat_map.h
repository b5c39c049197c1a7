#pragma once

#include "data/node.h"

namespace cohort::data::internal {

// A copy of a flat_map or interleave stage in whose datasets shard(kShardHint, ...) means
// shard(count, index).
NodePtr with_hints(const Node& expand, int64_t count, int64_t index);

}  // namespace cohort::data::internal
