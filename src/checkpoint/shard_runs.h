#pragma once

#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// The runs by which a saver lets tasks write and delete their files. They stay usable whatever
// becomes of the Session object; once the session is closed they throw FailedPrecondition.
class ShardRuns {
 public:
  ShardRuns(Session& session, const SaverGraph& graph);

  // Lets each device that holds values write them, and makes the checkpoint exist, as save_files().
  // Files of a task that cannot be reached are deleted by a later save.
  void write(const std::string& prefix, std::optional<int64_t> step) const;

  // Deletes files of the folder: here, and on the tasks that wrote those that are not here. What
  // cannot be deleted is a warning, and false.
  bool remove(const std::string& folder, const std::vector<SavedFile>& files) const;

 private:
  // Names for the files of one writing, one for each writer.
  std::vector<SavedFile> new_files(const std::string& prefix, const std::string& id) const;
  Manifest write_files(const std::string& folder, std::vector<SavedFile> files,
                       std::optional<int64_t> step) const;

  struct Remover {
    DeviceName device;
    Callable run;
  };

  const SaverGraph& graph_;
  Callable write_;
  std::vector<Remover> removers_;
};

}  // namespace cohort::internal
