// cohort-compute: the commands that need LibTorch. `cohort` starts it; its options are that
// command's business.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/raise.h"
#include "cli/compute/compute.h"
#include "cohort/error.h"

namespace {

using cohort::cli::InspectOptions;

// inspect KIND PATH VERIFY DOT LIMIT
void inspect(const std::vector<std::string>& words) {
  cohort::cli::inspect(words.at(1), words.at(2),
                       {.verify = words.at(3) == "1",
                        .dot = words.at(4) == "1",
                        .limit = std::atoi(words.at(5).c_str())});
}

int run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  if (command == "serve") {
    cohort::cli::serve();
  } else if (command == "inspect" && words.size() == 6) {
    inspect(words);
  } else if (command == "product") {
    cohort::cli::measure_product();
  } else {
    std::fprintf(stderr, "cohort-compute is started by the command cohort; see cohort --help\n");
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  const cohort::Status status = cohort::capture_status([&] {
    code = run({argv + 1, argv + argc});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    cohort::internal::raise(cohort::Code::DataLoss, "the output cannot be written: {}",
                            std::strerror(errno));
  });
  if (status.ok()) return code;
  std::fflush(stdout);  // what was found before it
  std::fprintf(stderr, "cohort: %s\n", status.message.c_str());
  return status.code == cohort::Code::InvalidArgument ? 2 : 1;
}
