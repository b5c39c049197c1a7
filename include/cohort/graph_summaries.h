#pragma once

#include <map>
#include <string>

#include "cohort/tensor.h"

namespace cohort::summary {

// Marks a scalar of the graph being built, to be written under this tag, and returns it:
//
//   summary::scalar("loss", loss);
//   SummarySaverHook hook({.scalars = summary::merge_all(), .summary_writer = writer});
//
// Name scopes come before the tag, "train/loss"; a tag that the graph has already gets a number,
// "loss_1". Throws FailedPrecondition while no graph is being built, where
// SummaryWriter::add_scalar writes values; InvalidArgument for an empty tag and for what is not one
// number of this graph.
Tensor scalar(const std::string& tag, const Tensor& value);

// The scalars that the graph being built has marked so far, by tag. Throws FailedPrecondition while
// no graph is being built.
std::map<std::string, Tensor> merge_all();

}  // namespace cohort::summary
