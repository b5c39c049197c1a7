#include <filesystem>

#include "base/raise.h"
#include "base/read_file.h"
#include "base/text.h"
#include "cli/command.h"
#include "launch/child_process.h"
#include "launch/run_layout.h"
#include "rpc/certificates.h"

namespace cohort::cli {
namespace {

constexpr char kServeExample[] =
    "Examples:\n"
    "  cohort serve --job ps --task 0 --cluster 'ps=h0:2222;worker=h1:2222,h2:2222'\n"
    "  cohort serve                 # the task that TF_CONFIG, Slurm or torchrun name\n"
    "Certificates are those of COHORT_CREDENTIALS, or of --credentials.";

struct TypedServe {
  std::string job = {};
  int task = 0;
  std::string cluster = {};
  std::string credentials = {};
};

void check_task(const ClusterSpec& cluster, const TypedServe& typed) {
  if (cluster.has_job(typed.job) && cluster.has_task(typed.job, typed.task)) return;
  const std::vector<std::string> jobs = cluster.jobs();
  internal::raise(Code::InvalidArgument,
                  "[Serve] the cluster has no task {} of a job '{}'; it is {}{}", typed.task,
                  typed.job, cluster.to_string(), internal::did_you_mean(typed.job, jobs));
}

[[noreturn]] void serve(const TypedServe& typed) {
  Environment environment;
  if (!typed.cluster.empty()) {
    const ClusterSpec cluster = parse_cluster(typed.cluster);
    check_task(cluster, typed);
    environment["TF_CONFIG"] = tf_config_of(cluster, {typed.job, typed.task});
  }
  if (!typed.credentials.empty()) environment["COHORT_CREDENTIALS"] = typed.credentials;
  exec_helper({"serve"}, environment);
}

constexpr char kInspectExample[] =
    "Examples:\n"
    "  cohort inspect model/ckpt-3              # a checkpoint, by prefix or directory\n"
    "  cohort inspect --verify model            # the last one in a directory, every byte of it\n"
    "  cohort inspect data/train-00001.tfrecord\n"
    "  cohort inspect --dot graph.bin | dot -Tsvg > graph.svg";

struct TypedInspect {
  std::string path = {};
  std::string kind = "auto";
  bool verify = false;
  bool dot = false;
  int limit = 20;
};

constexpr char kCredentialsExample[] =
    "Examples:\n"
    "  cohort credentials certificates ps:0 worker:0 worker:1\n"
    "makes certificates/ps_0, certificates/worker_0, certificates/worker_1 and "
    "certificates/client,\n"
    "each a directory for COHORT_CREDENTIALS that goes to its task and nowhere else, and\n"
    "certificates/authority, which stays here. Called again, the command adds tasks.";

struct TypedCredentials {
  std::string directory = {};
  std::vector<std::string> tasks = {};
  long days = 365;
};

TaskId parse_task(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string job = text.substr(0, colon);
  const std::optional<int> index = colon == std::string::npos
                                       ? std::nullopt
                                       : internal::parse_non_negative(text.substr(colon + 1));
  const bool is_name = !job.empty() && internal::has_only_alnum_and("_", job);
  if (!is_name || !index) {
    internal::raise(Code::InvalidArgument, "[Credentials] '{}' is not a task; write it as worker:0",
                    internal::excerpt(text));
  }
  return {.job = job, .index = *index};
}

// The secret of an earlier call; empty the first time.
std::string secret_in(const std::string& directory) {
  if (!std::filesystem::exists(directory)) return "";
  std::string secret = internal::read_file(directory + "/secret").value_or("");
  if (!secret.empty()) return secret;
  internal::raise(Code::FailedPrecondition,
                  "[Credentials] '{}' has no file 'secret', so it is not the directory of an "
                  "authority; choose another directory",
                  directory);
}

internal::RunAuthority find_authority(const TypedCredentials& typed, long seconds) {
  const std::string directory = typed.directory + "/authority";
  const std::string secret = secret_in(directory);
  if (!secret.empty()) return internal::RunAuthority(secret, seconds);
  internal::RunAuthority authority(internal::new_secret(), seconds);
  internal::make_private_directory(directory);
  internal::write_secret_file(directory + "/secret", authority.secret());
  return authority;
}

void make_credentials(const TypedCredentials& typed) {
  std::vector<TaskId> tasks;
  for (const std::string& text : typed.tasks) tasks.push_back(parse_task(text));
  std::error_code problem;  // the next call reports it
  std::filesystem::create_directories(typed.directory, problem);
  const long seconds = typed.days * 24 * 3600;
  const internal::RunAuthority authority = find_authority(typed, seconds);
  const auto issue = [&](const std::string& name, const std::string& label) {
    const std::string directory = typed.directory + "/" + label;
    internal::write_credentials(
        directory,
        authority.issue({.name = name, .valid_to_seconds = seconds, .token = authority.token()}));
    fmt::print("{}\n", directory);
  };
  for (const TaskId& task : tasks) {
    issue(full_name_of(task), fmt::format("{}_{}", task.job, task.index));
  }
  issue("client", "client");
}

}  // namespace

void add_serve(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand("serve", "Serve one task of a cluster");
  command->footer(kServeExample);
  const auto typed = std::make_shared<TypedServe>();
  auto* const job = command->add_option("--job", typed->job, "The task's job, such as ps");
  command->add_option("--task", typed->task, "The task's index in its job (0)")
      ->check(whole_number_between(0, 1'000'000));
  auto* const cluster = command->add_option("--cluster", typed->cluster,
                                            "Jobs and addresses, as in the example or as JSON");
  job->needs(cluster);
  cluster->needs(job);
  command->add_option("--credentials", typed->credentials, kCredentialsHelp);
  command->callback([typed] { serve(*typed); });
}

void add_inspect(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand("inspect", "Print the contents of a file");
  command->footer(kInspectExample);
  const auto typed = std::make_shared<TypedInspect>();
  command->add_option("path", typed->path, "A file, a checkpoint's prefix, a directory")
      ->required();
  command
      ->add_option("--kind", typed->kind, "The kind of file, if its name and bytes do not show it")
      ->check(CLI::IsMember({"auto", "checkpoint", "events", "tfrecord", "safetensors", "graph"}));
  command->add_flag("--verify", typed->verify, "Read everything and compare checksums");
  command->add_flag("--dot", typed->dot, "Print a graph as a picture for Graphviz");
  command->add_option("--limit", typed->limit, "How many entries to show; 0 for all (20)")
      ->check(whole_number_between(0, 1'000'000'000));
  command->callback([typed] {
    exec_helper({"inspect", typed->kind, typed->path, typed->verify ? "1" : "0",
                 typed->dot ? "1" : "0", std::to_string(typed->limit)});
  });
}

void add_credentials(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand(
      "credentials", "Make certificates for tasks that cohort run does not start");
  command->footer(kCredentialsExample);
  const auto typed = std::make_shared<TypedCredentials>();
  command->add_option("directory", typed->directory, "The directory for the certificates")
      ->required();
  command->add_option("tasks", typed->tasks, "The tasks, such as worker:0")->required();
  command->add_option("--days", typed->days, "How many days the certificates are valid (365)")
      ->check(whole_number_between(1, 36'500));
  command->callback([typed] { make_credentials(*typed); });
}

}  // namespace cohort::cli
