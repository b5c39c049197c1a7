#pragma once

#include "base/mutex.h"
#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

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
