#include "data/pass_count.h"

#include <algorithm>

#include "data/node.h"

namespace cohort::data::internal {
int64_t next_pass(const Dataset& dataset) {
  int64_t number = 0;
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    number = std::max(number, stage->passes.next());
  }
  return number;
}

void set_next_pass(const Dataset& dataset, int64_t number) {
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    stage->passes.set_next(number);
  }
}

void raise_next_pass(const Dataset& dataset, int64_t least) {
  for (const NodePtr& stage : all_stages(DatasetAccess::node(dataset))) {
    stage->passes.raise_next(least);
  }
}

}  // namespace cohort::data::internal
