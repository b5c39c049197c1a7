#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/child_process.h"
#include "launch/event_loop.h"
#include "launch/run_controller.h"
#include "launch/run_directory.h"
#include "launch/run_layout.h"
#include "launch/stalls.h"
#include "launch/task_output.h"
#include "topology/resolver_inputs.h"

namespace cohort::cli {

struct RunOptions {
  Roles roles = {};
  std::vector<std::string> command = {};
  std::string strategy = {};  // for strategy_from_environment(); empty: chosen by the roles
  int simulated_gpus = 0;     // of each task; 0: as the environment says
  std::map<std::string, int> max_restarts = {};  // by job
  std::chrono::milliseconds grace{5'000};
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of each task
  std::string log_directory = {};                             // empty: in the directory of the run
  std::string trace = {};                                     // the file to write; empty: none
  double stall_seconds = 0;                                   // 0: as the tasks have it
  bool insecure = false;                                      // no certificates between the tasks
  // For several machines: the hosts on which ssh starts `cohort join`, or how many machines join
  // without ssh.
  std::vector<internal::HostSlots> hosts = {};
  int machines = 0;
  std::string listen = {};  // the address of this machine for the others; empty: found out
  std::string ssh = "ssh";  // or a program that behaves like ssh
  std::chrono::milliseconds join_limit{60'000};
};

// Runs all tasks on this machine until the run is over, and returns the exit code. Throws if the
// run cannot start.
int run_here(const RunOptions& options);
// Runs the tasks on several machines, which join the run.
int run_on_machines(const RunOptions& options);

struct JoinOptions {
  std::string launcher = {};  // host:port
  std::string token = {};     // that the launcher printed
  std::string name = {};      // by which the launcher expects this machine
  std::string address = {};   // at which others reach the tasks here; empty: found out
};
// Takes part in the run of another machine until the run is over, and returns 0. Throws if it
// cannot join, and Unavailable if the launcher is lost: the tasks here are then killed. A signal
// that asks this machine to end makes the launcher stop the run, and a second one kills the tasks
// here; then it returns 128 + the signal.
int join_run(const JoinOptions& options);

// Prints one line for the user of the launcher.
void say(const std::string& text);

// What a launcher and a machine that joins its run both have. The order matters: the Reaper forks,
// so it is made before the first thread.
struct RunResources {
  RunResources() = default;
  explicit RunResources(const std::string& secret) : authority(secret) {}

  const std::string directory = make_run_directory();
  Signals signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  const Reaper reaper{directory, directory + "/secrets"};
  const internal::RunAuthority authority;
  const RunSecrets secrets{authority, directory + "/secrets"};
  Poller poller;
};

// The part of a run that is the same wherever its tasks are: prints and keeps their output, reports
// stalls, progress and failures, and stops the run. One thread.
class RunCore {
 public:
  // `options` and `poller` outlive it. Makes the directory for logs: "logs" in the directory of the
  // run, unless the options name another one.
  RunCore(const RunOptions& options, Poller& poller, const std::string& run_directory);

  // For the machines.
  TaskEvents events();
  struct Work {
    RunLayout layout = {};
    std::vector<TaskHost*> machines = {};                        // by task
    std::function<Environment(const TaskId&)> environment = {};  // added to that of the layout
    std::function<void()> look = {};         // called about once a second, or more often
    std::function<void()> child_ended = {};  // called when a child of this process has ended
  };
  // Runs all tasks until they have ended. Returns the exit code.
  int run(const Work& work, Signals& signals);

 private:
  std::vector<RunTask> run_tasks(const Work& work);
  void loop(const Work& work, Signals& signals);
  void on_signal(const Work& work, Signals& signals);
  void task_ended(size_t task, const Ending& ending);
  std::unique_ptr<StallWatch> watch_stalls(const Work& work);
  void print(size_t task, Stream stream, std::string_view line);
  void report() const;
  // Returns false, and says why, if the trace could not be written.
  bool write_trace() const;

  const RunOptions& options_;
  Poller& poller_;
  const std::string run_directory_;
  const std::string log_directory_;
  std::vector<std::unique_ptr<TaskLog>> logs_;
  std::unique_ptr<Printer> printer_;
  std::unique_ptr<RunController> controller_;
  std::unique_ptr<StallWatch> stalls_;
  std::unique_ptr<ProgressView> progress_;
  std::unique_ptr<TraceFile> trace_;  // null without --trace
  bool lines_lost_ = false;           // and the loss was reported
};

}  // namespace cohort::cli
