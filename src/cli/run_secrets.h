#pragma once

#include <string>

#include "cli/run_plan.h"
#include "rpc/run_authority.h"

namespace cohort::cli {

// Certificates for the tasks of a run, in folders for COHORT_CREDENTIALS.
class RunSecrets {
 public:
  // The folder is made.
  RunSecrets(const internal::RunAuthority& authority, std::string folder);

  // Writes a new certificate with that name and returns its folder.
  std::string for_task(const TaskId& task) const;
  std::string for_client() const;

 private:
  std::string issue(const std::string& name, const std::string& label) const;

  const internal::RunAuthority& authority_;
  const std::string folder_;
};

}  // namespace cohort::cli
