#pragma once

#include "checkpoint/contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// Slices from files of this machine where they are here, else from the tasks that have them, by
// nodes of a saver's graph: the one that wrote the file first. Throws NotFound naming the file, who
// wrote it and who was asked.
class TaskSource : public SliceSource {
 public:
  TaskSource(Session& session, const SaverGraph& graph, std::string folder);
  void check(const SavedFile& file, const SavedSlice& slice) override;
  void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) override;

 private:
  bool is_here(const SavedFile& file) const;
  const SaverGraph::Shard& holder_of(const SavedFile& file);
  Tensor ask(const SaverGraph::Shard& shard, const SavedFile& file, uint64_t begin, uint64_t size);

  Session& session_;
  const SaverGraph& graph_;
  LocalSource local_;
  std::mutex mutex_;
  std::map<std::string, const SaverGraph::Shard*> holders_;  // by file; guarded by mutex_
};

}  // namespace cohort::internal
