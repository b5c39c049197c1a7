#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

#include "base/raise.h"
#include "cli/command.h"
#include "cli/number_between.h"
#include "cli/run.h"
#include "topology/strategy_choice.h"
#include "topology/text.h"

namespace cohort::cli {
namespace {

using internal::raise;

constexpr char kRunExample[] =
    "Examples:\n"
    "  cohort run -n 4 ./train --epochs 3\n"
    "  cohort run --workers 2 --ps 1 --chief ./train\n"
    "  cohort run --strategy mirrored ./train   # for programs with strategy_from_environment()\n"
    "  cohort run -n 4 --max-restarts worker=3 --memory 2GB ./train\n"
    "  cohort run -n 4 --trace run.json ./train   # then open it in ui.perfetto.dev\n"
    "  cohort run --hosts a:2,b:2 ./train   # over ssh; the program is there as well\n"
    "  cohort run -n 4 --nodes 2 ./train    # two machines that `cohort join`\n"
    "The program finds its place in TF_CONFIG (resolver_from_environment reads it), in RANK,\n"
    "WORLD_SIZE and their like, and its certificates by COHORT_CREDENTIALS (a Server does by\n"
    "itself). Options of the program come after its name.";

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
  const size_t equals = text.find('=');
  const std::string count = equals == std::string::npos ? text : text.substr(equals + 1);
  int number = -1;
  const auto [end, problem] = std::from_chars(count.data(), count.data() + count.size(), number);
  if (problem != std::errc() || end != count.data() + count.size() || number < 0) {
    raise(Code::InvalidArgument,
          "[Run] --max-restarts takes a number, or job=number such as worker=3, not '{}'", text);
  }
  for (const char* job : {"chief", "worker", "ps", "evaluator"}) {
    if (equals == std::string::npos) restarts.try_emplace(job, number);
  }
  if (equals == std::string::npos) return;
  const std::string job = text.substr(0, equals);
  if (job != "chief" && job != "worker" && job != "ps" && job != "evaluator") {
    raise(Code::InvalidArgument,
          "[Run] --max-restarts: '{}' is no job; those are chief, worker, ps and evaluator", job);
  }
  restarts[job] = number;
}

// Names and addresses that ssh takes for a host, and shells for one word.
bool is_host_name(const std::string& text) {
  const auto is_allowed = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::strchr(".-_@", letter) != nullptr;
  };
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), is_allowed);
}

// "host" or "host:slots".
HostSlots parse_host(const std::string& text) {
  constexpr int kMaxSlots = 1024;
  const size_t colon = text.rfind(':');
  HostSlots host{.host = text.substr(0, colon)};
  const std::string slots = colon == std::string::npos ? "1" : text.substr(colon + 1);
  const auto [end, problem] =
      std::from_chars(slots.data(), slots.data() + slots.size(), host.slots);
  const bool is_number = problem == std::errc() && end == slots.data() + slots.size();
  const bool good_slots = is_number && host.slots >= 1 && host.slots <= kMaxSlots;
  if (!is_host_name(host.host) || !good_slots) {
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
    raise(Code::InvalidArgument, "[Run] what is to be run? cohort run -n 2 ./program");
  }
  if (command[0].starts_with("-")) {
    const std::string name = command[0].substr(0, command[0].find('='));
    raise(Code::InvalidArgument,
          "[Run] there is no option '{}'{}; see cohort run --help. Options of the program come "
          "after its name",
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
          "[Run] there are {} tasks and {} places on the machines of --hosts; a:3 gives a three",
          tasks, places);
  }
}

[[noreturn]] void refuse_strategy(const RunOptions& options, const std::string& why) {
  raise(Code::InvalidArgument, "[Run] --strategy {} {}", options.strategy, why);
}

// Adds the tasks that the strategy needs and that follow from it. InvalidArgument when the tasks do
// not fit the strategy.
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
  command.add_option("--nodes", typed.run.nodes, "Wait for so many machines that join")
      ->check(CLI::Range(1, 1024))
      ->excludes(hosts);
  command.add_option("--listen", typed.run.listen, "This machine's address for the others");
  command.add_option("--ssh", typed.run.ssh, "What is called to start on another machine (ssh)");
  command.add_option("--join-timeout", typed.join_seconds, "Seconds to wait for machines (60)")
      ->check(number_between(0, 86400));
}

// The last one that is given is the first that looks: less than 0 would be taken for a large
// number.
CLI::Validator not_negative() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        return text.starts_with("-") ? "'" + text + "' is less than nothing" : "";
      },
      "");
}

void add_options(CLI::App& command, TypedRun& typed) {
  auto* const processes =
      command.add_option("-n", typed.processes, "Processes that all do the same: worker 0 to n-1");
  auto* const workers = command.add_option("--workers", typed.run.roles.workers, "Workers");
  processes->check(CLI::Range(1, 1024))->excludes(workers);
  workers->check(CLI::Range(0, 1024));
  command.add_option("--ps", typed.run.roles.ps, "Parameter servers")->check(CLI::Range(0, 1024));
  command.add_flag("--chief", typed.run.roles.chief, "A chief beside the workers");
  command.add_option("--strategy", typed.run.strategy,
                     "What strategy_from_environment() gives: mirrored, multi_worker, "
                     "parameter_server, central_storage or one_device");
  command.add_flag("--evaluator", typed.run.roles.evaluator, "An evaluator beside the cluster");
  command
      .add_option("--max-restarts", typed.restarts,
                  "How often a task that dies is started again: 3, or by job: worker=3,ps=1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--grace", typed.grace_seconds, "Seconds to end in, when asked to (5)")
      ->check(number_between(0, 3600));
  command.add_option("--memory", typed.memory_bytes, "Limit of each task's data, such as 2GB")
      ->transform(CLI::AsSizeValue(false))
      ->transform(not_negative());
  command
      .add_option("--stall-after", typed.run.stall_seconds,
                  "Seconds that tasks wait for another before it is said who and why (5)")
      ->check(number_between(0.1, 86400));
  command.add_option("--trace", typed.run.trace,
                     "A file for what the tasks do when, which ui.perfetto.dev opens");
  command.add_option("--log-dir", typed.run.log_folder, "Where what the tasks write is kept");
  command.add_flag("--insecure", typed.run.insecure,
                   "No certificates: whoever reaches the ports may do everything");
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("run", "Run a program as the tasks of a cluster");
  command->footer(kRunExample)->prefix_command();
  const auto typed = std::make_shared<TypedRun>();
  add_options(*command, *typed);
  add_machine_options(*command, *typed);
  command->callback([command, typed, &exit_code] {
    const RunOptions options = options_of(*typed, *command);
    const bool here = options.hosts.empty() && options.nodes == 0;
    exit_code = here ? run_here(options) : run_on_nodes(options);
  });
}

}  // namespace cohort::cli
