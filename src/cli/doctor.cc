#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/machine.h"
#include "base/memory_limit.h"
#include "base/text.h"
#include "base/waiting.h"
#include "cli/command.h"
#include "cohort/scheduler_resolvers.h"
#include "launch/child_process.h"
#include "launch/local_network.h"
#include "launch/run_directory.h"
#include "launch/run_layout.h"
#include "rpc/certificates.h"
#include "rpc/grpc_endpoint.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

enum class Finding { Good, Remark, Bad };
// Called for each thing that was examined.
using Report =
    std::function<void(Finding finding, const std::string& about, const std::string& text)>;

// A cluster to examine, and which of its tasks this process is, if any.
struct DoctorCluster {
  ClusterSpec cluster = {};
  std::optional<TaskId> self = std::nullopt;
};

constexpr auto kProductLimit = std::chrono::seconds(30);
constexpr double kSlowProduct = 5;  // billions of operations per second; without a BLAS it is 1

void examine_threads(const Report& report) {
  const unsigned cores = internal::core_count();
  const char* const set = std::getenv("OMP_NUM_THREADS");
  if (set != nullptr && std::atoi(set) > static_cast<int>(cores)) {
    return report(Finding::Remark, "cores",
                  fmt::format("{}, but OMP_NUM_THREADS is {}: more threads than cores are slower",
                              cores, set));
  }
  report(Finding::Good, "cores",
         fmt::format("{}; OMP_NUM_THREADS is {}", cores, set == nullptr ? "not set" : set));
}

void examine_product(const Report& report) {
  const std::string program = helper_file("cohort-compute");
  const std::string output =
      program.empty() ? "" : captured_output({program, "product"}, kProductLimit);
  const double speed = std::atof(output.c_str());
  if (speed <= 0) {
    return report(Finding::Bad, "arithmetic",
                  "cohort-compute, which loads LibTorch, does not run here");
  }
  const std::string text =
      fmt::format("a matrix product on one core: {:.1f} billion operations per second", speed);
  if (speed >= kSlowProduct) return report(Finding::Good, "arithmetic", text);
  report(Finding::Remark, "arithmetic",
         text + "; that is slow. Is OpenBLAS the system's BLAS? (update-alternatives)");
}

void examine_memory(const Report& report) {
  const std::optional<uint64_t> limit = internal::MemoryCgroup().limit_bytes();
  report(Finding::Good, "memory",
         limit ? fmt::format("limited to {} MB", *limit >> 20)
               : "not limited by a group of processes");
}

// GPUs are examined only where they are simulated: others are not reached yet.
void examine_gpus(const Report& report) {
  const auto asked = internal::environment_variable("COHORT_SIMULATED_GPUS");
  if (!asked) return;
  const std::optional<int> count = internal::parse_non_negative(*asked);
  if (!count || *count > 16) {
    return report(Finding::Bad, "GPUs",
                  fmt::format("COHORT_SIMULATED_GPUS must be a number from 0 to 16, got '{}'",
                              internal::excerpt(*asked)));
  }
  const auto memory = internal::environment_variable("COHORT_SIMULATED_GPU_MEMORY");
  report(Finding::Good, "GPUs",
         fmt::format("{} simulated, with {} each", *count, memory.value_or("16GB")));
}

void examine_host(const std::string& host, bool spans_hosts, const Report& report) {
  const std::set<std::string> addresses = addresses_of(host);
  if (addresses.empty()) {
    return report(Finding::Bad, "names",
                  fmt::format("'{}' has no address: is it spelled right?", host));
  }
  const bool loopback = std::ranges::any_of(addresses, internal::is_loopback);
  if (spans_hosts && loopback) {
    return report(Finding::Bad, "names",
                  fmt::format("'{}' is {} here, which other machines do not reach; see /etc/hosts",
                              host, fmt::join(addresses, ", ")));
  }
  report(Finding::Good, "names", fmt::format("'{}' is {}", host, fmt::join(addresses, ", ")));
}

// Reports the interface on which this task listens.
void examine_own_host(const std::string& host, const Report& report) {
  const auto here = local_interfaces();
  for (const std::string& address : addresses_of(host)) {
    // The loopback interface has all of these addresses, but lists only one.
    const auto found = here.find(address.starts_with("127.") ? "127.0.0.1" : address);
    if (found != here.end()) {
      return report(Finding::Good, "interface", fmt::format("{} ({})", found->second, address));
    }
  }
  std::string all;
  for (const auto& [address, name] : here) all += fmt::format(" {} ({})", address, name);
  report(Finding::Bad, "interface",
         fmt::format("this task is to listen at '{}', which is not an address of this machine:{}",
                     host, all));
}

// Two tasks with one address would be one task for the others.
void examine_addresses(const ClusterSpec& cluster, const Report& report) {
  std::map<std::string, std::vector<std::string>> by_address;
  for (const AskedTask& task : tasks_of(cluster)) {
    if (internal::parse_address(task.address).port != 0) {
      by_address[task.address].push_back(task.label);
    }
  }
  for (const auto& [address, labels] : by_address) {
    if (labels.size() == 1) continue;
    report(Finding::Bad, "names",
           fmt::format("{} have the same address, {}", fmt::join(labels, " and "), address));
  }
}

void examine_machine(const Report& report) {
  report(Finding::Good, "version", COHORT_VERSION);
  examine_threads(report);
  examine_memory(report);
  examine_gpus(report);
  examine_product(report);
}

void examine_names(const DoctorCluster& cluster, const Report& report) {
  examine_addresses(cluster.cluster, report);
  std::set<std::string> hosts;
  for (const AskedTask& task : tasks_of(cluster.cluster)) {
    hosts.insert(internal::parse_address(task.address).host);
  }
  const bool spans = internal::spans_hosts(cluster.cluster) && hosts.size() > 1;
  for (const std::string& host : hosts) examine_host(host, spans, report);
  if (!cluster.self) return;
  const TaskId& self = *cluster.self;
  examine_own_host(internal::parse_address(cluster.cluster.task_address(self.job, self.index)).host,
                   report);
}

constexpr auto kBetweenTries = std::chrono::milliseconds(100);
constexpr auto kTryLimit = std::chrono::seconds(2);
constexpr double kClockTolerance = 1.0;  // seconds

// Answers at the address of this task for as long as the endpoint lives. Counts the questions.
std::unique_ptr<internal::Endpoint> answer(const DoctorCluster& cluster,
                                           const Credentials& credentials,
                                           std::atomic<int>& asked) {
  const TaskId& self = *cluster.self;
  return internal::make_endpoint(
      {.self = {.name = full_name_of(self),
                .incarnation = 1,
                .address = cluster.cluster.task_address(self.job, self.index)},
       .credentials = credentials,
       .spans_hosts = internal::spans_hosts(cluster.cluster),
       .details =
           [&asked] {
             ++asked;
             return std::string();
           }},
      [](const std::shared_ptr<internal::Connection>&) {});
}

void examine_answer(const AskedTask& task, const Report& report) {
  const std::string name = fmt::format("{} at {}", task.label, task.address);
  if (!task.problem.ok()) {
    return report(Finding::Bad, "connection", fmt::format("{}: {}", name, task.problem.message));
  }
  report(Finding::Good, "connection", fmt::format("{} answers", name));
  if (task.status.version != COHORT_VERSION) {
    report(Finding::Bad, "version",
           fmt::format("{} has version {}, this program has version {}", name, task.status.version,
                       COHORT_VERSION));
  }
  if (std::abs(task.clock_difference) > kClockTolerance) {
    report(Finding::Remark, "clock",
           fmt::format(
               "the clock of {} is {:+.1f} s off this machine's: certificates and timelines suffer",
               name, task.clock_difference));
  }
}

std::vector<AskedTask> others(const DoctorCluster& cluster) {
  std::vector<AskedTask> tasks = tasks_of(cluster.cluster);
  std::erase_if(tasks, [&](const AskedTask& task) {
    return cluster.self && task.label == label_of(*cluster.self);
  });
  return tasks;
}

bool all_answered(const std::vector<AskedTask>& tasks) {
  return std::ranges::all_of(tasks, [](const AskedTask& task) { return task.problem.ok(); });
}

// Asks again and again, until all have answered.
void dial(std::vector<AskedTask>& tasks, const Credentials& credentials, internal::Deadline until) {
  ask_tasks(tasks, credentials, kTryLimit);
  const auto ask_again = [&] {
    if (!all_answered(tasks)) ask_tasks(tasks, credentials, kTryLimit, Asked::Silent);
    return all_answered(tasks);
  };
  (void)internal::poll_until(until, ask_again, internal::PollPolicy::every(kBetweenTries));
}

void examine_credentials(const DoctorCluster& cluster, const Credentials& credentials,
                         const Report& report) {
  const Status problem = capture_status([&] {
    internal::check_credentials(credentials, cluster.self ? full_name_of(*cluster.self) : "client");
  });
  if (!problem.ok()) return report(Finding::Bad, "certificates", problem.message);
  if (credentials.has_certificates()) return report(Finding::Good, "certificates", "they fit");
  const bool exposed = internal::spans_hosts(cluster.cluster);
  if (exposed && !credentials.insecure) {
    return report(Finding::Bad, "certificates",
                  "there are no certificates, but servers that other machines reach need them: see "
                  "COHORT_CREDENTIALS, or start the tasks with cohort run");
  }
  report(Finding::Remark, "certificates",
         "there are no certificates: any program that reaches the tasks may use them");
}

// Asks every other task until it answers or the time is over. Meanwhile it answers at the port of
// this task, if the port is free: if all tasks run it at once, every pair is tried.
void examine_connections(const DoctorCluster& cluster, const Credentials& credentials,
                         std::chrono::milliseconds limit, const Report& report) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::vector<AskedTask> tasks = others(cluster);
  std::atomic<int> asked = 0;
  std::unique_ptr<internal::Endpoint> answering;
  if (cluster.self) {
    const Status listens = capture_status([&] { answering = answer(cluster, credentials, asked); });
    if (!listens.ok()) {
      report(Finding::Remark, "port",
             listens.message + ". If that is this task itself, all is well");
    }
  }
  dial(tasks, credentials, until);
  for (const AskedTask& task : tasks) examine_answer(task, report);
  if (!answering || !all_answered(tasks)) return;
  // The other tasks may not have asked this one yet.
  const auto all_asked = [&] { return asked >= static_cast<int>(tasks.size()); };
  (void)internal::poll_until(until, all_asked, internal::PollPolicy::every(kBetweenTries));
}

struct DoctorOptions {
  std::string cluster = {};  // empty: the environment's
  std::string credentials = {};
  std::chrono::milliseconds limit{10'000};
};

std::string nearest_role(const std::string& name) {
  static const std::array<std::string, 4> roles = {"chief", "worker", "ps", "evaluator"};
  const std::string* const role = internal::closest_word(name, roles, 2);
  return role == nullptr ? name : *role;
}

// Spells the roles right and makes numbers of texts.
nlohmann::json corrected(const nlohmann::json& config) {
  nlohmann::json result = config;
  result["cluster"] = nlohmann::json::object();
  const nlohmann::json cluster = config.value("cluster", nlohmann::json::object());
  for (const auto& [job, tasks] : cluster.items()) {
    result["cluster"][nearest_role(job)] =
        tasks.is_string() ? nlohmann::json::array({tasks}) : tasks;
  }
  if (!config.contains("task")) return result;
  result["task"]["type"] = nearest_role(config["task"].value("type", ""));
  const nlohmann::json& index = config["task"]["index"];
  if (index.is_string()) result["task"]["index"] = std::stoi(index.get<std::string>());
  return result;
}

DoctorCluster find_cluster(const DoctorOptions& options) {
  if (!options.cluster.empty()) return {.cluster = parse_cluster(options.cluster)};
  const auto resolver = resolver_from_environment();
  DoctorCluster found{.cluster = resolver->cluster_spec()};
  const auto job = resolver->task_type();
  const auto index = resolver->task_id();
  if (job && found.cluster) validate_task(found.cluster, job, index);
  if (job && index && found.cluster.has_task(*job, *index)) found.self = TaskId{*job, *index};
  return found;
}

void report_tf_config(const Status& problem, const Report& report) {
  report(Finding::Bad, "cluster", problem.message);
  const char* const text = std::getenv("TF_CONFIG");
  if (text == nullptr) return;
  if (const auto better = corrected_tf_config(text)) {
    report(Finding::Remark, "cluster", "this may be what you meant: TF_CONFIG='" + *better + "'");
  }
}

constexpr char kDoctorExample[] =
    "Examples:\n"
    "  cohort doctor                        # this machine, and the cluster of TF_CONFIG or Slurm\n"
    "  cohort doctor --cluster 'ps=h0:2222;worker=h1:2222'\n"
    "  cohort run -n 4 cohort doctor        # every task dials every other";

// Prints the findings. Returns 0 if nothing is bad.
int examine(const DoctorOptions& options) {
  bool bad = false;
  const Report report = [&bad](Finding finding, const std::string& about, const std::string& text) {
    constexpr const char* kMarks[] = {"ok  ", "note", "BAD "};
    bad = bad || finding == Finding::Bad;
    fmt::print("{} {:<12} {}\n", kMarks[static_cast<size_t>(finding)], about, text);
    std::fflush(stdout);
  };
  examine_machine(report);
  DoctorCluster cluster;
  const Status found = capture_status([&] { cluster = find_cluster(options); });
  if (!found.ok()) {
    report_tf_config(found, report);
    return 1;
  }
  if (!cluster.cluster) {
    report(Finding::Remark, "cluster", "no cluster is described: give --cluster, or set TF_CONFIG");
    return bad ? 1 : 0;
  }
  report(Finding::Good, "cluster", cluster.cluster.to_string());
  const Credentials credentials = credentials_named(options.credentials);
  examine_names(cluster, report);
  examine_credentials(cluster, credentials, report);
  examine_connections(cluster, credentials, options.limit, report);
  return bad ? 1 : 0;
}

}  // namespace

std::optional<std::string> corrected_tf_config(const std::string& text) {
  try {
    const nlohmann::json config = nlohmann::json::parse(text);
    const nlohmann::json better = corrected(config);
    return better == config ? std::nullopt : std::optional(better.dump());
  } catch (const std::exception&) {
    return std::nullopt;  // not JSON, or of another form
  }
}

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("doctor", "Examine this machine and a cluster");
  command->footer(kDoctorExample);
  const auto typed = std::make_shared<DoctorOptions>();
  const auto seconds = std::make_shared<double>(10);
  command->add_option("--cluster", typed->cluster, "Jobs and addresses, as for cohort serve");
  command->add_option("--credentials", typed->credentials, kCredentialsHelp);
  command->add_option("--timeout", *seconds, "Seconds to wait for other tasks (10)")
      ->check(number_between(0, 3600));
  command->callback([typed, seconds, &exit_code] {
    if (!typed->cluster.empty()) (void)parse_cluster(typed->cluster);  // throws if it is wrong
    typed->limit = std::chrono::milliseconds(static_cast<int64_t>(*seconds * 1000));
    exit_code = examine(*typed);
  });
}

}  // namespace cohort::cli
