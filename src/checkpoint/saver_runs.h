#pragma once

#include "base/mutex.h"
#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// The runs by which a saver lets tasks write and delete their files. They work while the session is
// open, even after the Session object is destroyed. After the session is closed they throw
// FailedPrecondition.
class ShardRuns {
 public:
  ShardRuns(Session& session, const SaverGraph& graph);

  // Lets each device that holds values write them, and commits the checkpoint as save_files() does.
  // A later save deletes the files of a task that cannot be reached.
  void write(const std::string& prefix, std::optional<int64_t> step) const;

  // Deletes files of the directory: here, and on the tasks that wrote the files that are not here.
  // Logs a warning and returns false if a file cannot be deleted.
  bool remove(const std::string& directory, const std::vector<SavedFile>& files) const;

 private:
  Manifest write_files(const std::string& directory, std::vector<SavedFile> files,
                       std::optional<int64_t> step) const;

  const SaverGraph& graph_;
  Callable write_;
  std::vector<Callable> removers_;  // one for each writer
};

}  // namespace cohort::internal
