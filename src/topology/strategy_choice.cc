#include "topology/strategy_choice.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/raise.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

constexpr std::array<std::pair<std::string_view, StrategyChoice>, 5> kChoices = {
    {{"one_device", StrategyChoice::OneDevice},
     {"mirrored", StrategyChoice::Mirrored},
     {"central_storage", StrategyChoice::CentralStorage},
     {"multi_worker", StrategyChoice::MultiWorker},
     {"parameter_server", StrategyChoice::ParameterServer}}};

int tasks_of_job(const ClusterSpec& cluster, std::string_view job) {
  return cluster.has_job(job) ? cluster.num_tasks(job) : 0;
}

StrategyChoice for_cluster(const ClusterSpec& cluster, StrategyChoice alone) {
  if (tasks_of_job(cluster, "ps") > 0) return StrategyChoice::ParameterServer;
  const int training = tasks_of_job(cluster, "chief") + tasks_of_job(cluster, "master") +
                       tasks_of_job(cluster, "worker");
  return training > 1 ? StrategyChoice::MultiWorker : alone;
}

bool spans_tasks(StrategyChoice choice) {
  return choice == StrategyChoice::MultiWorker || choice == StrategyChoice::ParameterServer;
}

void check_chief(const ClusterSpec& cluster, const std::string& task_type) {
  if (task_type.empty() || !cluster || cluster.has_job("chief")) return;
  raise(Code::InvalidArgument,
        "[strategy_from_environment] a cluster with parameter servers needs a chief, which tells "
        "the workers what to do, and there is none in {}; add one (cohort run --strategy "
        "parameter_server does)",
        cluster.to_string());
}

}  // namespace

StrategyChoice parse_strategy(std::string_view name, std::string_view source) {
  for (const auto& [known, choice] : kChoices) {
    if (known == name) return choice;
  }
  std::vector<std::string> names;
  for (const auto& [known, choice] : kChoices) names.emplace_back(known);
  raise(Code::InvalidArgument, "{} names no strategy: '{}'{}; use {}", source, excerpt(name),
        did_you_mean(name, names), quoted_list(names));
}

StrategyChoice choose_strategy(const ClusterResolver& resolver, size_t devices) {
  const ClusterSpec cluster = resolver.cluster_spec();
  const std::string task_type = resolver.task_type().value_or("");
  const StrategyChoice alone = devices > 1 ? StrategyChoice::Mirrored : StrategyChoice::OneDevice;
  const std::string named = environment_variable(kStrategyVariable).value_or("");
  const StrategyChoice choice =
      named.empty() ? for_cluster(cluster, alone)
                    : parse_strategy(named, "[strategy_from_environment] COHORT_STRATEGY");
  if (task_type == "evaluator" && spans_tasks(choice)) return alone;
  if (choice == StrategyChoice::ParameterServer) check_chief(cluster, task_type);
  return choice;
}

}  // namespace cohort::internal
