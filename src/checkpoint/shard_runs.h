#pragma once

#include "checkpoint/saver_graph.h"

namespace cohort::internal {

// The runs by which a saver lets tasks write and delete their files. They stay usable whatever
// becomes of the Session object; once the session is closed they throw FailedPrecondition.
class ShardRuns {
 public:
  ShardRuns(Session& session, const SaverGraph& graph);

  // Lets each device that holds values write them, and returns the manifest of it all; file names
  // are the prefix's. When one fails, none of the files stays.
  Manifest write(const std::string& prefix, std::optional<int64_t> step) const;

  // Deletes files of the folder: here, and on the tasks that wrote those that are not here. What
  // cannot be deleted is a warning.
  void remove(const std::string& folder, const std::vector<SavedFile>& files) const;

 private:
  struct Remover {
    DeviceName device;
    Callable run;
  };

  const SaverGraph& graph_;
  Callable write_;
  std::vector<Remover> removers_;
};

}  // namespace cohort::internal
