#include <CLI/CLI.hpp>

#include "cli/cluster_text.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/number_between.h"

namespace cohort::cli {
namespace {

constexpr char kDoctorExample[] =
    "Examples:\n"
    "  cohort doctor                        # this machine, and the cluster of TF_CONFIG or Slurm\n"
    "  cohort doctor --cluster 'ps=h0:2222;worker=h1:2222'\n"
    "  cohort run -n 4 cohort doctor        # every task dials every other";

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("doctor", "Look for what is wrong with this machine and a cluster");
  command->footer(kDoctorExample);
  const auto typed = std::make_shared<DoctorOptions>();
  const auto seconds = std::make_shared<double>(10);
  command->add_option("--cluster", typed->cluster, "Jobs and addresses, as for cohort serve");
  command->add_option("--credentials", typed->credentials,
                      "A folder with certificates, or the word insecure");
  command->add_option("--timeout", *seconds, "Seconds to wait for other tasks (10)")
      ->check(number_between(0, 3600));
  command->callback([typed, seconds, &exit_code] {
    if (!typed->cluster.empty()) (void)parse_cluster(typed->cluster);  // says what is wrong with it
    typed->limit = std::chrono::milliseconds(static_cast<int64_t>(*seconds * 1000));
    exit_code = examine(*typed);
  });
}

}  // namespace cohort::cli
