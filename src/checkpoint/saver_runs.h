#pragma once

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// The runs by which a saver lets tasks write and delete their files. They work as long as the
// session is open, even when the Session object has ended; once the session is closed they throw
// FailedPrecondition.
class ShardRuns {
 public:
  ShardRuns(Session& session, const SaverGraph& graph);

  // Lets each device that holds values write them, and commits the checkpoint as save_files() does.
  // A later save deletes the files of a task that cannot be reached.
  void write(const std::string& prefix, std::optional<int64_t> step) const;

  // Deletes files of the directory: here, and on the tasks that wrote the files that are not here.
  // Logs a warning and returns false when a file cannot be deleted.
  bool remove(const std::string& directory, const std::vector<SavedFile>& files) const;

 private:
  // Names for the files of one writing, one for each writer.
  std::vector<SavedFile> new_files(const std::string& prefix, const std::string& id) const;
  Manifest write_files(const std::string& directory, std::vector<SavedFile> files,
                       std::optional<int64_t> step) const;

  const SaverGraph& graph_;
  Callable write_;
  std::vector<Callable> removers_;  // one for each writer
};

// Lets the shard's device read the variables' values from the file that its task wrote, so that no
// value crosses the network. This is the case when a program goes on with the same devices. Returns
// false when the values are not all in one such file, when they were cut differently, and when the
// file does not open or is damaged; reading them another way then gives the error.
bool restore_in_place(Session& session, const SaverGraph& graph, const SaverGraph::Shard& shard,
                      const CheckpointFiles& files);

}  // namespace cohort::internal
