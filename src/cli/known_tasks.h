#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/ask_tasks.h"
#include "cli/run_plan.h"

namespace cohort::cli {

// Writes down, in the run's folder, which tasks a run has and how to ask them.
void write_run_file(const std::string& run_folder, const RunPlan& plan,
                    const std::string& credentials_folder);

// How far the trainings of a run are, by the labels of the tasks: written by the launcher, for
// whoever asks for the run's status. Reading gives nothing where nothing was written.
void write_progress_file(const std::string& run_folder,
                         const std::map<std::string, std::string>& progress);
std::map<std::string, std::string> read_progress_file(const std::string& run_folder);

// Those of a folder, the word "insecure", or, for an empty text, those of the environment.
Credentials credentials_named(const std::string& folder);

// Tasks that can be asked, and with what.
struct KnownTasks {
  std::vector<AskedTask> tasks = {};
  Credentials credentials = {};
  std::string where = {};   // for people: what they were found by
  std::string folder = {};  // the directory of the run; empty for tasks without a run
};
// Those at the addresses; without any, those of the cluster that the environment describes; without
// that, those of each run of this user that still goes on, the newest first. NotFound when there is
// none.
std::vector<KnownTasks> find_tasks(const std::vector<std::string>& addresses,
                                   const std::string& credentials);
std::vector<AskedTask> tasks_of(const ClusterSpec& cluster);

}  // namespace cohort::cli
