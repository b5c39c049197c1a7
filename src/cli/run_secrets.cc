#include "cli/run_secrets.h"

#include <filesystem>

namespace cohort::cli {

RunSecrets::RunSecrets(const internal::RunAuthority& authority, std::string folder)
    : authority_(authority), folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

std::string RunSecrets::for_task(const TaskId& task) const {
  return issue(full_name_of(task), task.job + "-" + std::to_string(task.index));
}

std::string RunSecrets::for_client() const { return issue("client", "client"); }

std::string RunSecrets::issue(const std::string& name, const std::string& label) const {
  const std::string folder = folder_ + "/" + label;
  internal::write_credentials(folder,
                              authority_.issue({.name = name, .token = authority_.token()}));
  return folder;
}

}  // namespace cohort::cli
