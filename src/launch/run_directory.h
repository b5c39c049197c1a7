#pragma once

#include <string>

#include "launch/run_layout.h"
#include "rpc/certificates.h"

namespace cohort::cli {

// Makes a directory for the files of one run, which only this user may open:
// <temporary directory>/cohort-<user>/<time>-<process>. The logs stay in it when the run is over.
// Throws PermissionDenied if another user owns the directory above it. Removes the directories of
// runs that ended more than a week ago.
std::string make_run_directory();
// The directory above those of this user's runs.
std::string runs_directory();

// Issues certificates for the tasks of a run, in directories for COHORT_CREDENTIALS.
class RunSecrets {
 public:
  // Makes the directory.
  RunSecrets(const internal::RunAuthority& authority, std::string directory);

  // Writes a new certificate and returns its directory.
  std::string for_task(const TaskId& task) const;
  std::string for_client() const;

 private:
  std::string issue(const std::string& name, const std::string& label) const;

  const internal::RunAuthority& authority_;
  const std::string directory_;
};

}  // namespace cohort::cli
