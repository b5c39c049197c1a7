// The `cohort` command. It computes nothing and does not load LibTorch, so that it starts at once;
// what needs the library is done by a second program, cohort-compute.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cohort/error.h"

namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  cohort run -n 4 ./train              # four processes, certificates and all\n"
    "  cohort run -n 4 --nodes 2 ./train    # on two machines, which then join:\n"
    "  cohort join 10.0.0.1:40123 4f1e...   # (address and token are printed)\n"
    "  cohort serve --job ps --task 0 --cluster 'ps=h0:2222;worker=h1:2222'\n"
    "  cohort status                        # how the tasks of the run are\n"
    "  cohort doctor                        # what is wrong with this machine and cluster\n"
    "  cohort inspect model                 # what is in a checkpoint or another file\n"
    "  cohort completion bash               # so that the shell knows these\n"
    "Each has more: cohort run --help.";

int run(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app{"Cohort: distributed training for C++", "cohort"};
  app.require_subcommand(1);
  app.set_version_flag("--version", COHORT_VERSION);
  app.footer(kExamples);
  cohort::cli::add_run(app, exit_code);
  cohort::cli::add_join(app, exit_code);
  cohort::cli::add_serve(app, exit_code);
  cohort::cli::add_status(app, exit_code);
  cohort::cli::add_doctor(app, exit_code);
  cohort::cli::add_inspect(app, exit_code);
  cohort::cli::add_completion(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const cohort::Error& error) {
    fmt::print(stderr, "cohort: {}\n", error.message());
    return error.code() == cohort::Code::InvalidArgument ? 2 : 1;
  }
}
