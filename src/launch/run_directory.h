#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/error.h"
#include "cohort/server.h"
#include "launch/run_layout.h"
#include "rpc/certificates.h"
#include "rpc/task_status.h"

namespace cohort::cli {

// A task to ask, and its answer.
struct AskedTask {
  std::string label = {};  // "worker:0"; empty if only the address is known
  std::string address = {};
  Status problem = {};  // why it did not answer
  internal::TaskStatus status = {};
  ServerStatus server = {};     // if it is a server
  std::string progress = {};    // of its training, if its launcher knows it
  pid_t process = 0;            // 0: unknown
  double clock_difference = 0;  // seconds that its clock is ahead
};

// Asks all tasks, or those that have not answered the last time, at the same time, each once,
// within the limit.
enum class Asked { All, Silent };
void ask_tasks(std::vector<AskedTask>& tasks, const Credentials& credentials,
               std::chrono::milliseconds limit, Asked which = Asked::All);

// Writes the tasks of a run, and how to ask them, to the directory that this process has for the
// run.
void write_run_file(const std::string& run_directory, const ClusterSpec& cluster,
                    const std::string& credentials_directory);

// The progress of the trainings of a run, by the labels of the tasks. The launcher writes it for
// `cohort status`. Without a file, reading returns nothing.
void write_progress_file(const std::string& run_directory,
                         const std::map<std::string, std::string>& progress);
std::map<std::string, std::string> read_progress_file(const std::string& run_directory);

// The file in the directory of a run for what this machine knows of a task: "crash", "activity",
// "process" or "trace".
std::string task_file(const std::string& run_directory, const char* kind, const std::string& label);
// Finds the processes of tasks that have not answered, if they run on this machine.
void find_silent_processes(std::vector<AskedTask>& tasks, const std::string& run_directory);

// The credentials in a directory; none for "insecure"; those of the environment for "".
Credentials credentials_named(const std::string& directory);

// Tasks that can be asked, with the credentials for that.
struct KnownTasks {
  std::vector<AskedTask> tasks = {};
  Credentials credentials = {};
  std::string where = {};      // for users: where the tasks were found
  std::string directory = {};  // the directory of the run; empty for tasks without a run
};
// The tasks at the addresses; without addresses, those of the cluster that the environment
// describes; without a cluster, those of each current run of this user that this machine launched
// or joined, the newest first. Throws NotFound if there are none.
std::vector<KnownTasks> find_tasks(const std::vector<std::string>& addresses,
                                   const std::string& credentials);
std::vector<AskedTask> tasks_of(const ClusterSpec& cluster);

// Makes a directory for the files of one run, which only this user may open:
// <temporary directory>/cohort-<user>/<time>-<process>. The logs stay in it when the run is over.
// Throws PermissionDenied if another user owns the directory above it. Removes the directories of
// runs that ended more than a week ago.
std::string make_run_directory();

// Issues certificates for the tasks of a run, in directories for COHORT_CREDENTIALS.
class RunSecrets {
 public:
  // Makes the directory.
  RunSecrets(const internal::RunAuthority& authority, std::string directory);

  // Writes a new certificate and returns its directory.
  std::string for_task(const TaskId& task) const;
  std::string for_client() const { return issue("client", "client"); }

 private:
  std::string issue(const std::string& name, const std::string& label) const;

  const internal::RunAuthority& authority_;
  const std::string directory_;
};

}  // namespace cohort::cli
