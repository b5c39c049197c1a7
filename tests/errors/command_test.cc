#include <gtest/gtest.h>

#include "cohort/error.h"
#include "errors/catalogue.h"
#include "support/process.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

// What `cohort` writes about these words, and how it ends.
ErrorRow cohort_command(std::vector<std::string> words) {
  words.insert(words.begin(), COHORT_COMMAND);
  Process process(words);
  const int exit_code = process.wait(std::chrono::seconds(20));
  std::string text = process.output();
  EXPECT_NE(exit_code, 0) << text;
  while (text.ends_with('\n')) text.pop_back();
  return {"exit " + std::to_string(exit_code), text, ""};
}

TEST(Errors, OfTheCommand) {
  const TemporaryDirectory directory;
  const ScopedEnvironment environment({{"TMPDIR", directory.path()}, {"TF_CONFIG", std::nullopt}});
  const std::string text = directory.write("notes.txt", "not a checkpoint");
  check_section(
      "The `cohort` command",
      std::vector<ErrorRow>{
          cohort_command({"rnu"}),
          cohort_command({"--bogus"}),
          cohort_command({"run"}),
          cohort_command({"run", "./train"}),
          cohort_command({"run", "./train", "-n", "2"}),
          cohort_command({"run", "-n", "two", "./train"}),
          cohort_command({"run", "--workres", "2", "./train"}),
          cohort_command({"run", "--ps", "2", "./train"}),
          cohort_command({"run", "-n", "1", "./no_such_program"}),
          cohort_command({"run", "--strategy", "miror", "./train"}),
          cohort_command({"run", "-n", "3", "--hosts", "a:1,b:1", "./train"}),
          cohort_command({"run", "-n", "1", "--max-restarts", "often", "./train"}),
          cohort_command({"serve"}),
          cohort_command({"serve", "--job", "wroker", "--task", "0", "--cluster", "worker=h:1"}),
          cohort_command({"serve", "--job", "ps", "--task", "0", "--cluster", "ps"}),
          cohort_command({"status"}),
          cohort_command({"inspect", directory.path() + "/none"}),
          cohort_command({"inspect", text}),
          cohort_command({"inspect", text, "--kind", "picture"}),
          cohort_command({"credentials", "certificates", "worker"}),
      });
}

}  // namespace
}  // namespace cohort::test
