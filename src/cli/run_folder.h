#pragma once

#include <string>

namespace cohort::cli {

// A new folder for the files of one run, which only this user may open:
// <temporary folder>/cohort-<user>/<time>-<process>. The logs in it stay when the run is over.
// PermissionDenied when somebody else owns the folder above it. Folders of runs that ended more
// than a week ago are removed.
std::string make_run_folder();
// Where the folders of this user's runs are.
std::string runs_folder();

// The file of that name that belongs to this command: beside it where it was built, in
// ../libexec/cohort where it is installed. Empty when it is in neither place.
std::string companion_file(const std::string& name);

}  // namespace cohort::cli
