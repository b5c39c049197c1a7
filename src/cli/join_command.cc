#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "cli/join.h"

namespace cohort::cli {
namespace {

constexpr char kJoinExample[] =
    "Examples:\n"
    "  cohort join 10.0.0.1:40123 4f1e...   # as the launcher printed it\n"
    "  cohort join 10.0.0.1:40123 - < token # so that nobody sees it in the list of processes";

}  // namespace

void add_join(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("join", "Take part in a run that another machine has started");
  command->footer(kJoinExample);
  const auto typed = std::make_shared<JoinOptions>();
  command->add_option("launcher", typed->launcher, "host:port of the launcher")->required();
  command->add_option("token", typed->token, "What it printed; - reads it from the input")
      ->required();
  command->add_option("--name", typed->name, "By which the launcher expects this machine");
  command->add_option("--address", typed->address, "At which others reach this machine");
  command->callback([typed, &exit_code] {
    if (typed->token == "-") std::getline(std::cin, typed->token);
    exit_code = join_run(*typed);
  });
}

}  // namespace cohort::cli
