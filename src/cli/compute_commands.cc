#include "base/raise.h"
#include "base/text.h"
#include "cli/command.h"
#include "launch/child_process.h"
#include "launch/run_layout.h"

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
                  "[Serve] the cluster has no task {} of a job '{}'{}; it is {}", typed.task,
                  typed.job, internal::did_you_mean(typed.job, jobs), cluster.to_string());
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

}  // namespace

void add_serve(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand("serve", "Serve one task of a cluster");
  command->footer(kServeExample);
  const auto typed = std::make_shared<TypedServe>();
  auto* const job = command->add_option("--job", typed->job, "The task's job, such as ps");
  command->add_option("--task", typed->task, "Its index there (0)")
      ->check(CLI::Range(0, 1'000'000));
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
  command->add_option("--kind", typed->kind, "The kind of file, if its name and bytes do not tell")
      ->check(CLI::IsMember({"auto", "checkpoint", "events", "tfrecord", "safetensors", "graph"}));
  command->add_flag("--verify", typed->verify, "Read everything and compare checksums");
  command->add_flag("--dot", typed->dot, "Print a graph as a picture for Graphviz");
  command->add_option("--limit", typed->limit, "How many entries to show; 0 for all (20)")
      ->check(CLI::Range(0, 1'000'000'000));
  command->callback([typed] {
    exec_helper({"inspect", typed->kind, typed->path, typed->verify ? "1" : "0",
                 typed->dot ? "1" : "0", std::to_string(typed->limit)});
  });
}

}  // namespace cohort::cli
