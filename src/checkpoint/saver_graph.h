#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/saving.h"
#include "cohort/checkpoint.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// A variable that a saver is for, and what it is in checkpoints.
struct SaverItem {
  std::shared_ptr<VariableImpl> variable;
  SaveItem saved;
};

// The nodes that a saver adds to its graph, all of them when it is made: a graph may be finalised
// before it is first run.
struct SaverGraph {
  // The nodes that read and write the disk of one device.
  struct Shard {
    std::string device;              // as asked for: "/job:ps/task:0/device:CPU:0"
    std::vector<size_t> items = {};  // whose values it holds; empty when it is only read from
    Tensor path = {};                // fed
    Tensor hold = {};
    Tensor report = {};
    Tensor load_request = {};         // fed
    std::vector<Tensor> loaded = {};  // one for each item; none where a shape is not fully known
    Tensor restore = {};              // assigns them
    Tensor read_request = {};         // fed
    Tensor read_bytes = {};
    Tensor removed_paths = {};  // fed
    Tensor removed = {};

    // Whether the shard is on the task that wrote the file.
    bool wrote(const SavedFile& file) const;
  };

  // Throws InvalidArgument, beginning with [Saver], without a variable, for a variable that is not
  // of this graph, for two of one name, and for parts that do not make up a tensor.
  SaverGraph(std::vector<SaverItem> items, const SaverOptions& options);

  std::vector<SaveItem> items_of(const Shard& shard) const;
  // The shards that have items.
  std::span<const Shard> writers() const { return {shards.data(), num_writers}; }

  std::vector<SaverItem> items;
  std::vector<Tensor> values;    // one for each item
  std::vector<Tensor> restored;  // fed: one for each item
  std::vector<Tensor> restores;  // assign them, one by one
  std::vector<Shard> shards;     // those with items first
  size_t num_writers = 0;

 private:
  void add_shards(const std::vector<std::string>& devices_to_read);
  void add_shard_nodes(Shard& shard, const std::string& slot);
  void add_load_nodes(Shard& shard);
};

// Lists a variable of which a strategy keeps copies once, whichever copies are given.
std::vector<SaverItem> items_of(const SaverVariables& variables, std::span<const SavedPart> parts);

}  // namespace cohort::internal
