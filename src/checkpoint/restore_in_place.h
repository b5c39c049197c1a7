#pragma once

#include "checkpoint/contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// Lets the shard's device read the variables' values from the file that its task wrote, so that
// they travel nowhere: what happens when a program goes on with the devices that it had. Returns
// false when they are not all in one such file, cut as they are now, or that file does not open or
// is damaged; who then reads them another way finds out more.
bool restore_in_place(Session& session, const SaverGraph& graph, const SaverGraph::Shard& shard,
                      const CheckpointFiles& files);

}  // namespace cohort::internal
