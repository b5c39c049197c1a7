#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/status.h"

namespace cohort::cli {
namespace {

constexpr char kStatusExample[] =
    "Examples:\n"
    "  cohort status                        # of all runs that go on here\n"
    "  cohort status --watch                # again every second\n"
    "  cohort status --credentials certificates h0:2222 h1:2222";

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("status", "Ask tasks how they are");
  command->footer(kStatusExample);
  const auto typed = std::make_shared<StatusOptions>();
  command->add_option("addresses", typed->addresses, "host:port of each task to ask");
  command->add_option("--credentials", typed->credentials,
                      "A folder with certificates, or the word insecure");
  command->add_flag("--watch", typed->watch, "Ask again and again");
  command->callback([typed, &exit_code] { exit_code = show_status(*typed); });
}

}  // namespace cohort::cli
