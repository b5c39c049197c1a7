#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/saving.h"
#include "cohort/checkpoint.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// A variable of a saver, and its name and part in checkpoints.
struct SaverItem {
  std::shared_ptr<VariableImpl> variable;
  SaveItem saved;
};

// The nodes that a saver adds to its graph. The constructor adds all of them, because a graph may
// be finalised before its first run.
struct SaverGraph {
  // The nodes that read and write the disk of one device.
  struct Shard {
    std::string device;              // as requested: "/job:ps/task:0/device:CPU:0"
    std::vector<size_t> items = {};  // whose values it holds; empty if only files are read from it
    Tensor path = {};                // fed
    Tensor hold = {};
    Tensor report = {};
    Tensor load_request = {};         // fed
    std::vector<Tensor> loaded = {};  // one for each item; none if a shape is not fully known
    Tensor restore = {};              // assigns the loaded values
    Tensor read_request = {};         // fed
    Tensor read_bytes = {};
    Tensor removed_paths = {};  // fed
    Tensor removed = {};

    // Whether the shard is on the task that wrote the file.
    bool wrote(const SavedFile& file) const;
  };

  // Throws InvalidArgument, beginning with [Saver], if `given` is empty, if a variable is not of
  // this graph, if two have one name, and if parts do not make up a tensor.
  SaverGraph(std::vector<SaverItem> items, const SaverOptions& options, Site site);

  std::vector<SaveItem> items_of(const Shard& shard) const;
  // The shards that have items.
  std::span<const Shard> writers() const { return {shards.data(), num_writers}; }

  std::vector<SaverItem> items;
  std::vector<Tensor> values;    // one for each item
  std::vector<Tensor> restored;  // fed: one for each item
  std::vector<Tensor> restores;  // assign the restored values, one by one
  std::vector<Shard> shards;     // those with items first
  size_t num_writers = 0;

 private:
  void add_shards(const std::vector<std::string>& devices_to_read);
  void add_shard_nodes(Shard& shard, const std::string& slot);
  void add_load_nodes(Shard& shard);
};

// Lists each variable of which a strategy keeps copies once, whichever copies are given.
std::vector<SaverItem> items_of(const SaverVariables& variables, std::span<const SavedPart> parts);

}  // namespace cohort::internal
