#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_directory.h"

namespace cohort::cli {

// Each function adds one subcommand to the command line. The subcommand runs as part of the parsing
// and leaves its exit code in `exit_code`; it lets cohort::Error pass.
void add_credentials(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_join(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);

// The long options of a command, such as "--log-dir".
std::vector<std::string> long_options_of(const CLI::App& command);

// A table with a line for each task: whether it answers, its process, and its steps. Between two
// questions: steps per second, traffic, and the shares of the time for getting input and for
// waiting for other tasks. Below each task stand its long waits and its progress.
std::string status_table(const std::vector<AskedTask>& before, const std::vector<AskedTask>& now,
                         double seconds);

// TF_CONFIG with misspelt names corrected; nothing if it cannot be guessed.
std::optional<std::string> corrected_tf_config(const std::string& text);

inline constexpr char kCredentialsHelp[] = "A directory with certificates, or the word insecure";

// As CLI::Range, which says of a word that it is not in the range.
inline CLI::Validator whole_number_between(int64_t least, int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        int64_t number = 0;
        const bool good =
            CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
        return good ? ""
                    : fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
      },
      fmt::format("INT in [{} - {}]", least, most));
}

// As CLI::Range, which accepts "nan".
inline CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        double number = 0;
        const bool good =
            CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
        return good ? "" : fmt::format("'{}' is not a number from {} to {}", text, least, most);
      },
      fmt::format("FLOAT in [{} - {}]", least, most));
}

}  // namespace cohort::cli
