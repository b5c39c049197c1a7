#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

// Saving and restoring as nodes of a graph, so that each task reads and writes its own disk.
namespace cohort::internal {

// Keeps the tensors on its device, under `slot`, until write_shard_node takes them; a later run
// replaces them. Returns the number of their bytes, an int64.
Tensor hold_tensors_node(const std::string& slot, const std::vector<Tensor>& tensors);
// Writes the tensors that are held under `slot` to the file `path`, one for each of `keys`, and
// returns a shard_report(). Must be placed with the node that holds them.
Tensor write_shard_node(const std::string& slot, const Tensor& path, const Tensor& keys);

// Returns bytes of a file as uint8. `request` is int64: the file's size, the checksum of its
// header, where the bytes begin, and how many there are.
Tensor read_shard_node(const Tensor& path, const Tensor& request);
// Tensors of a file, as `specs` says, which are fully known. `request` is int64: the file's size,
// the checksum of its header, and for each tensor where its bytes begin, how many they are and
// their checksum. Throws DataLoss where a checksum differs.
std::vector<Tensor> load_shard_nodes(const Tensor& path, const Tensor& request, const Specs& specs);
// Deletes the files that exist; returns how many did, an int64.
Tensor remove_shards_node(const Tensor& paths);

}  // namespace cohort::internal
