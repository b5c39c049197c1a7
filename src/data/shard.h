#pragma once

#include "data/node.h"

namespace cohort::data::internal {

// Whether `node` is shard(kShardHint, ...).
bool is_shard_hint(const Node& node);
// Shard `index` of `count`, each of which must get an element.
NodePtr shard_of(const NodePtr& input, int64_t count, int64_t index);

}  // namespace cohort::data::internal
