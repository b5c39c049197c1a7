#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::cli {

// Each adds one subcommand to the command line. When that is what was typed, it runs as part of the
// parsing and leaves its exit code in `exit_code`; cohort::Error is thrown on.
void add_completion(CLI::App& app, int& exit_code);
void add_credentials(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_join(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);

// "--log-dir": what a command is told by words.
std::vector<std::string> long_options_of(const CLI::App& command);

}  // namespace cohort::cli
