#include <algorithm>
#include <array>
#include <iostream>

#include "base/raise.h"
#include "base/text.h"
#include "cli/command.h"
#include "launch/run.h"
#include "topology/resolver_inputs.h"

namespace cohort::cli {
namespace {

using internal::HostSlots;
using internal::raise;

constexpr char kRunExample[] =
    "Examples:\n"
    "  cohort run -n 4 ./train --epochs 3\n"
    "  cohort run --workers 2 --ps 1 --chief ./train\n"
    "  cohort run --strategy mirrored ./train   # for programs with strategy_from_environment()\n"
    "  cohort run --strategy mirrored --simulate-gpus 2 ./train   # rehearse for GPUs\n"
    "  cohort run -n 4 --max-restarts worker=3 --memory 2GB ./train\n"
    "  cohort run -n 4 --trace run.json ./train   # then open it in ui.perfetto.dev\n"
    "  cohort run --hosts a:2,b:2 ./train   # over ssh; the program is there as well\n"
    "  cohort run -n 4 --nodes 2 ./train    # two machines that `cohort join`\n"
    "The program finds its place in TF_CONFIG (resolver_from_environment reads it), in RANK,\n"
    "WORLD_SIZE and their like, and its certificates by COHORT_CREDENTIALS (a Server does by\n"
    "itself). Options of the program come after its name.";

// Adds the program to the first line of the help. The parser does not know the program: what
// follows the options is the rest of the line.
class HelpWithProgram : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* command, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(command, std::move(name));
    return usage.insert(usage.find_last_not_of('\n') + 1, " PROGRAM [ARGUMENTS]...");
  }
};

// The options as the user typed them.
struct TypedRun {
  RunOptions run;
  int processes = 0;
  std::vector<std::string> restarts;
  double grace_seconds = 5;
  uint64_t memory_bytes = 0;
  std::vector<std::string> hosts;
  double join_seconds = 60;
};

// "3" is for all jobs, "worker=3" for one.
void add_restarts(const std::string& text, std::map<std::string, int>& restarts) {
  const std::array<std::string, 4> jobs = {"chief", "worker", "ps", "evaluator"};
  const size_t equals = text.find('=');
  const bool for_all = equals == std::string::npos;
  const std::optional<int> number =
      internal::parse_non_negative(text.substr(for_all ? 0 : equals + 1));
  if (!number) {
    raise(Code::InvalidArgument,
          "[Run] --max-restarts takes a number, or job=number such as worker=3, not '{}'", text);
  }
  if (for_all) {
    for (const std::string& job : jobs) restarts.try_emplace(job, *number);
    return;
  }
  const std::string job = text.substr(0, equals);
  if (std::ranges::find(jobs, job) == jobs.end()) {
    raise(Code::InvalidArgument,
          "[Run] --max-restarts: '{}' is not a job; the jobs are chief, worker, ps and evaluator",
          job);
  }
  restarts[job] = *number;
}

// Whether ssh takes the text as a host, and a shell takes it as one word.
bool is_host_name(const std::string& text) {
  return !text.empty() && text[0] != '-' && internal::has_only_alnum_and(".-_@", text);
}

// "host" or "host:slots".
HostSlots parse_host(const std::string& text) {
  constexpr int kMaxSlots = 1024;
  const size_t colon = text.rfind(':');
  const bool counted = colon != std::string::npos;
  const HostSlots host{
      text.substr(0, colon),
      counted ? internal::parse_non_negative(text.substr(colon + 1)).value_or(0) : 1};
  if (!is_host_name(host.host) || host.slots < 1 || host.slots > kMaxSlots) {
    raise(Code::InvalidArgument,
          "[Run] --hosts takes host or host:tasks such as a:2, with names, IPv4 addresses and at "
          "most {} tasks each, not '{}'",
          kMaxSlots, text);
  }
  return host;
}

void check_command(const std::vector<std::string>& command,
                   const std::vector<std::string>& options) {
  if (command.empty()) {
    raise(Code::InvalidArgument,
          "[Run] the program is missing; give it after the options: cohort run -n 2 ./program");
  }
  if (command[0].starts_with("-")) {
    const std::string name = command[0].substr(0, command[0].find('='));
    raise(
        Code::InvalidArgument,
        "[Run] there is no option '{}'; options of the program come after its name; see cohort run "
        "--help{}",
        name, internal::did_you_mean(name, options));
  }
}

void check_places(const RunOptions& options, bool roles_given) {
  if (options.hosts.empty() || !roles_given) return;
  const size_t tasks = tasks_of(options.roles).size();
  size_t places = 0;
  for (const HostSlots& host : options.hosts) places += static_cast<size_t>(host.slots);
  if (tasks > places) {
    raise(Code::InvalidArgument,
          "[Run] there are {} tasks, but {} places on the machines of --hosts; a:3 means three "
          "tasks on machine a",
          tasks, places);
  }
}

[[noreturn]] void refuse_strategy(const RunOptions& options, const std::string& why) {
  raise(Code::InvalidArgument, "[Run] --strategy {} {}", options.strategy, why);
}

// Adds the tasks that follow from the strategy. Throws InvalidArgument if the tasks do not fit it.
void fit_to_strategy(RunOptions& options) {
  using internal::StrategyChoice;
  if (options.strategy.empty()) return;
  Roles& roles = options.roles;
  const auto choice = internal::parse_strategy(options.strategy, "[Run] --strategy");
  if (choice == StrategyChoice::ParameterServer) {
    roles.chief = true;
    if (roles.workers > 0 && roles.ps > 0) return;
    refuse_strategy(options,
                    fmt::format("needs workers and parameter servers, got {} and {}; give both, "
                                "such as --workers 2 --ps 1",
                                roles.workers, roles.ps));
  }
  if (roles.ps > 0) {
    refuse_strategy(options, fmt::format("has no parameter servers, got --ps {}; leave it out, or "
                                         "use --strategy parameter_server",
                                         roles.ps));
  }
  const int training = roles.workers + (roles.chief ? 1 : 0);
  if (choice == StrategyChoice::MultiWorker || training == 1) return;
  if (training > 1) {
    refuse_strategy(options, fmt::format("trains in one process, got {}; leave out -n, --workers "
                                         "and --chief, or use --strategy multi_worker",
                                         training));
  }
  roles.workers = 1;
}

// Refuses a run without tasks that train if an option that would give it some stands after the
// program.
void check_order(const RunOptions& options) {
  constexpr std::array<std::string_view, 6> kGiveTasks = {"-n",      "--workers",  "--chief",
                                                          "--hosts", "--strategy", "--nodes"};
  if (options.roles.workers + (options.roles.chief ? 1 : 0) > 0) return;
  const std::vector<std::string>& words = options.command;
  const auto option = std::find_if(words.begin() + 1, words.end(), [&](const std::string& word) {
    return std::ranges::find(kGiveTasks, word.substr(0, word.find('='))) != kGiveTasks.end();
  });
  if (option == words.end()) return;
  const bool has_value =
      *option != "--chief" && option->find('=') == std::string::npos && option + 1 != words.end();
  const std::string typed = has_value ? *option + " " + *(option + 1) : *option;
  raise(Code::InvalidArgument,
        "[Run] no task trains: '{0}' stands after the program, so it is an option of the program; "
        "options of cohort run come before it: cohort run {0} {1}",
        typed, words[0]);
}

RunOptions options_of(const TypedRun& typed, const CLI::App& command) {
  RunOptions options = typed.run;
  options.command = command.remaining();
  check_command(options.command, long_options_of(command));
  if (typed.processes > 0) options.roles.workers = typed.processes;
  for (const std::string& text : typed.restarts) add_restarts(text, options.max_restarts);
  options.grace = std::chrono::milliseconds(static_cast<int64_t>(typed.grace_seconds * 1000));
  for (const std::string& text : typed.hosts) options.hosts.push_back(parse_host(text));
  const bool roles_given = options.roles.workers + options.roles.ps > 0 || options.roles.chief;
  for (const HostSlots& host : options.hosts) {
    if (!roles_given) options.roles.workers += host.slots;
  }
  fit_to_strategy(options);
  check_order(options);
  check_places(options, roles_given);
  options.join_limit = std::chrono::milliseconds(static_cast<int64_t>(typed.join_seconds * 1000));
  if (typed.memory_bytes > 0) options.memory_limit_bytes = typed.memory_bytes;
  return options;
}

void add_machine_options(CLI::App& command, TypedRun& typed) {
  auto* const hosts =
      command.add_option("--hosts", typed.hosts, "Machines that ssh reaches, with tasks: a:2,b:2")
          ->delimiter(',')
          ->allow_extra_args(false);
  command.add_option("--nodes", typed.run.machines, "How many machines join the run")
      ->check(whole_number_between(1, 1024))
      ->excludes(hosts);
  command.add_option("--listen", typed.run.listen,
                     "The address at which other machines reach this machine");
  command.add_option("--ssh", typed.run.ssh,
                     "The program that starts commands on other machines (ssh)");
  command.add_option("--join-timeout", typed.join_seconds, "Seconds to wait for machines (60)")
      ->check(number_between(0, 86400));
}

// Refuses numbers below 0, which CLI::AsSizeValue takes for large ones. The transform that is added
// last runs first.
CLI::Validator not_negative() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        return text.starts_with("-") ? "'" + text + "' is negative" : "";
      },
      "");
}

void add_options(CLI::App& command, TypedRun& typed) {
  auto* const processes =
      command.add_option("-n", typed.processes, "Number of processes, which are worker 0 to n-1");
  auto* const workers = command.add_option("--workers", typed.run.roles.workers, "Workers");
  processes->check(whole_number_between(1, 1024))->excludes(workers);
  workers->check(whole_number_between(0, 1024));
  command.add_option("--ps", typed.run.roles.ps, "Parameter servers")
      ->check(whole_number_between(0, 1024));
  command.add_flag("--chief", typed.run.roles.chief, "A chief beside the workers");
  command.add_option("--strategy", typed.run.strategy,
                     "The strategy of strategy_from_environment(): mirrored, multi_worker, "
                     "parameter_server, central_storage or one_device");
  command
      .add_option("--simulate-gpus", typed.run.simulated_gpus,
                  "Simulated GPUs of each task, to rehearse a program for GPUs")
      ->check(CLI::Range(1, 16));
  command.add_flag("--evaluator", typed.run.roles.evaluator, "An evaluator beside the cluster");
  command
      .add_option("--max-restarts", typed.restarts,
                  "How often a task that dies is started again: 3, or by job: worker=3,ps=1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--grace", typed.grace_seconds,
                  "Seconds that a task has to end after SIGTERM (5)")
      ->check(number_between(0, 3600));
  command.add_option("--memory", typed.memory_bytes, "Limit of each task's data, such as 2GB")
      ->transform(CLI::AsSizeValue(false))
      ->transform(not_negative());
  command
      .add_option("--stall-after", typed.run.stall_seconds,
                  "Seconds that tasks wait for a task before that is reported (5)")
      ->check(number_between(0.1, 86400));
  command.add_option("--trace", typed.run.trace,
                     "A file for the timelines of the tasks, for ui.perfetto.dev");
  command.add_option("--log-dir", typed.run.log_directory,
                     "The directory for the output of the tasks");
  command.add_flag("--insecure", typed.run.insecure,
                   "No certificates: any program that reaches the ports has full access");
}

constexpr char kJoinExample[] =
    "Examples:\n"
    "  cohort join 10.0.0.1:40123 4f1e...   # as the launcher printed it\n"
    "  cohort join 10.0.0.1:40123 - < token # keeps it out of the list of processes";

}  // namespace

std::vector<std::string> long_options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("run", "Run a program as the tasks of a cluster");
  command->footer(kRunExample)->prefix_command();
  command->formatter(std::make_shared<HelpWithProgram>());
  const auto typed = std::make_shared<TypedRun>();
  add_options(*command, *typed);
  add_machine_options(*command, *typed);
  command->callback([command, typed, &exit_code] {
    const RunOptions options = options_of(*typed, *command);
    const bool here = options.hosts.empty() && options.machines == 0;
    exit_code = here ? run_here(options) : run_on_machines(options);
  });
}

void add_join(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("join", "Take part in a run that another machine has started");
  command->footer(kJoinExample);
  const auto typed = std::make_shared<JoinOptions>();
  command->add_option("launcher", typed->launcher, "host:port of the launcher")->required();
  command
      ->add_option("token", typed->token,
                   "The token that the launcher printed; - reads it from the input")
      ->required();
  command->add_option("--name", typed->name, "The name by which the launcher expects this machine");
  command->add_option("--address", typed->address,
                      "The address at which other machines reach this machine");
  command->callback([typed, &exit_code] {
    if (typed->token == "-") std::getline(std::cin, typed->token);
    exit_code = join_run(*typed);
  });
}

}  // namespace cohort::cli
