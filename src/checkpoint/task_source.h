#pragma once

#include "checkpoint/contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// Slices from files of this machine where they are here, else from the tasks that have them, by
// nodes of a saver's graph: the one that wrote the file first. Throws NotFound naming the file, who
// wrote it and who was asked.
class TaskSource : public SliceSource {
 public:
  // The folder's name on this machine and on the tasks'.
  struct Folders {
    std::string here;
    std::string there;
  };
  TaskSource(Session& session, const SaverGraph& graph, const Folders& folders);
  void check(const SavedFile& file, const SavedSlice& slice) override;
  void read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) override;

 private:
  bool is_here(const SavedFile& file) const;
  const SaverGraph::Shard& holder_of(const SavedFile& file);
  Tensor ask(const SaverGraph::Shard& shard, const SavedFile& file, uint64_t begin, uint64_t size);

  Session& session_;
  const SaverGraph& graph_;
  const std::string folder_there_;
  LocalSource local_;
  std::mutex mutex_;
  std::map<std::string, const SaverGraph::Shard*> holders_;  // by file; guarded by mutex_
};

}  // namespace cohort::internal
