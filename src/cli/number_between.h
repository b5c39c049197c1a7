#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace cohort::cli {

// As CLI::Range, which lets "nan" through.
inline CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        double number = 0;
        const bool good =
            CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
        return good ? "" : fmt::format("'{}' is no number from {} to {}", text, least, most);
      },
      fmt::format("FLOAT in [{} - {}]", least, most));
}

}  // namespace cohort::cli
