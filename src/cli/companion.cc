#include "cli/companion.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/raise.h"
#include "cli/run_folder.h"

namespace cohort::cli {

void become_compute(const std::vector<std::string>& words, const Environment& environment) {
  const std::string program = companion_file("cohort-compute");
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  if (!program.empty()) execv(program.c_str(), arguments.data());
  internal::raise(
      Code::NotFound,
      "[Cohort] the program cohort-compute cannot be started: {}; it belongs beside the "
      "command, or in ../libexec/cohort",
      program.empty() ? "it is not there" : std::strerror(errno));
}

}  // namespace cohort::cli
