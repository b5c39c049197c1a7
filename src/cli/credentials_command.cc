
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/raise.h"
#include "base/text.h"
#include "cli/command.h"
#include "launch/run_layout.h"
#include "rpc/certificates.h"

namespace cohort::cli {
namespace {

constexpr char kCredentialsExample[] =
    "Examples:\n"
    "  cohort credentials certificates ps:0 worker:0 worker:1\n"
    "makes certificates/ps_0, certificates/worker_0, certificates/worker_1 and "
    "certificates/client,\n"
    "each a directory for COHORT_CREDENTIALS that goes to its task and nowhere else, and\n"
    "certificates/authority, which stays here. Called again, the command adds tasks.";

struct TypedCredentials {
  std::string directory = {};
  std::vector<std::string> tasks = {};
  long days = 365;
};

TaskId parse_task(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string job = text.substr(0, colon);
  const std::optional<int> index =
      colon == std::string::npos ? std::nullopt : internal::parse_index(text.substr(colon + 1));
  const bool is_name =
      !job.empty() && job.find_first_not_of(
                          "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
  if (!is_name || !index) {
    internal::raise(Code::InvalidArgument, "[Credentials] '{}' is not a task; write it as worker:0",
                    internal::excerpt(text));
  }
  return {.job = job, .index = *index};
}

// The secret of an earlier call; empty the first time.
std::string secret_in(const std::string& directory) {
  if (!std::filesystem::exists(directory)) return "";
  std::ifstream file(directory + "/secret");
  std::string secret{std::istreambuf_iterator<char>(file), {}};
  if (!secret.empty()) return secret;
  internal::raise(Code::FailedPrecondition,
                  "[Credentials] '{}' has no file 'secret', so it is not the directory of an "
                  "authority; choose another directory",
                  directory);
}

internal::RunAuthority find_authority(const TypedCredentials& typed, long seconds) {
  const std::string directory = typed.directory + "/authority";
  const std::string secret = secret_in(directory);
  if (!secret.empty()) return internal::RunAuthority(secret, seconds);
  internal::RunAuthority authority(internal::new_secret(), seconds);
  internal::make_private_directory(directory);
  internal::write_secret_file(directory + "/secret", authority.secret());
  return authority;
}

void make_credentials(const TypedCredentials& typed) {
  std::vector<TaskId> tasks;
  for (const std::string& text : typed.tasks) tasks.push_back(parse_task(text));
  std::error_code problem;  // the next call reports it
  std::filesystem::create_directories(typed.directory, problem);
  const long seconds = typed.days * 24 * 3600;
  const internal::RunAuthority authority = find_authority(typed, seconds);
  const auto issue = [&](const std::string& name, const std::string& label) {
    const std::string directory = typed.directory + "/" + label;
    internal::write_credentials(
        directory,
        authority.issue({.name = name, .valid_to_seconds = seconds, .token = authority.token()}));
    fmt::print("{}\n", directory);
  };
  for (const TaskId& task : tasks) {
    issue(full_name_of(task), fmt::format("{}_{}", task.job, task.index));
  }
  issue("client", "client");
}

}  // namespace

void add_credentials(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand(
      "credentials", "Make certificates for tasks that cohort run does not start");
  command->footer(kCredentialsExample);
  const auto typed = std::make_shared<TypedCredentials>();
  command->add_option("directory", typed->directory, "The directory for the certificates")
      ->required();
  command->add_option("tasks", typed->tasks, "The tasks, such as worker:0")->required();
  command->add_option("--days", typed->days, "How many days they are valid (365)")
      ->check(CLI::Range(1, 36'500));
  command->callback([typed] { make_credentials(*typed); });
}

}  // namespace cohort::cli
