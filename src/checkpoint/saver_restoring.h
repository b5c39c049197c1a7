#pragma once

#include "base/mutex.h"
#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/saver_graph.h"

// How a saver gets values from the files of a checkpoint, which may be on other machines.
namespace cohort::internal {

// Lets the shard's device read the values of its variables from the file that its task wrote, so
// that no value crosses the network. This works if a program continues with the same devices.
// Returns false if the values are not all in one such file, if they were cut differently, and if
// the file does not open or is damaged; another way of reading then throws the error.
bool restore_in_place(Session& session, const SaverGraph& graph, const SaverGraph::Shard& shard,
                      const CheckpointFiles& files);

// Slices from files of this machine, or, where a file is not here, from the tasks that have it, by
// nodes of a saver's graph. It asks the task that wrote the file first. Throws NotFound naming the
// file, the task that wrote it and the tasks that were asked.
class TaskSource : public SliceSource {
 public:
  // The directory's name on this machine, and its name on the tasks.
  TaskSource(Session& session, const SaverGraph& graph, const std::string& here,
             const std::string& there);
  void check(const SavedFile& file, const SavedSlice& slice) override;
  void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) override;

 private:
  bool is_here(const SavedFile& file) const;
  const SaverGraph::Shard& holder_of(const SavedFile& file);
  Tensor ask(const SaverGraph::Shard& shard, const SavedFile& file, uint64_t begin, uint64_t size);

  Session& session_;
  const SaverGraph& graph_;
  const std::string directory_there_;
  LocalSource local_;
  Turn asking_;                                              // of the thread that asks the tasks
  std::map<std::string, const SaverGraph::Shard*> holders_;  // by file; guarded by asking_
};

}  // namespace cohort::internal
