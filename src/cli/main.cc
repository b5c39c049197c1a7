// The `cohort` command. It does not load LibTorch, so that it starts at once. Commands that need
// LibTorch run in a second program, cohort-compute.

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/raise.h"
#include "base/text.h"
#include "cli/command.h"

namespace cohort::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  cohort run -n 4 ./train              # four processes, with certificates\n"
    "  cohort run -n 4 --nodes 2 ./train    # on two machines, which then join:\n"
    "  cohort join 10.0.0.1:40123 4f1e...   # (address and token are printed)\n"
    "  cohort serve --job ps --task 0 --cluster 'ps=h0:2222;worker=h1:2222'\n"
    "  cohort status                        # what the tasks of the run do\n"
    "  cohort doctor                        # what is wrong with this machine and cluster\n"
    "  cohort inspect model                 # what is in a checkpoint or another file\n"
    "  cohort credentials certificates ps:0 worker:0   # for tasks that others start\n"
    "  cohort completion bash               # for the shell\n"
    "Each command has more: cohort run --help.";

constexpr int kBadInput = 2;

constexpr char kCompletionExample[] =
    "Examples:\n"
    "  cohort completion bash > ~/.local/share/bash-completion/completions/cohort\n"
    "  cohort completion zsh  >> ~/.zshrc\n"
    "  cohort completion fish > ~/.config/fish/completions/cohort.fish";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string bash_script(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += " " + command->get_name();
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(),
                         fmt::join(long_options_of(*command), " "));
  }
  return fmt::format(
      "_cohort() {{\n"
      "  local words=\"{} --help --version\" here=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  [[ $COMP_CWORD -gt 1 ]] && case ${{COMP_WORDS[1]}} in\n{}    *) words= ;;\n  esac\n"
      "  if [[ $here == -* || $COMP_CWORD -eq 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$here\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _cohort cohort\n",
      names, cases);
}

std::string fish_script(const CLI::App& app) {
  std::string script;
  for (const CLI::App* command : commands_of(app)) {
    script += fmt::format("complete -c cohort -n __fish_use_subcommand -a {} -d '{}'\n",
                          command->get_name(), command->get_description());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        script += fmt::format("complete -c cohort -n '__fish_seen_subcommand_from {}' -l {}\n",
                              command->get_name(), name);
      }
    }
  }
  return script;
}

std::string script_for(const std::string& shell, const CLI::App& app) {
  if (shell == "fish") return fish_script(app);
  // zsh runs the script of bash.
  return (shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "") + bash_script(app);
}

void add_completion(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("completion", "Print a script that completes this command in a shell");
  command->footer(kCompletionExample);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] { fmt::print("{}", script_for(*shell, app)); });
}

void check_option(const CLI::App& of, const std::string& word, const std::string& command) {
  const std::string name = word.substr(0, word.find('='));
  if (of.get_option_no_throw(name) != nullptr) return;
  internal::raise(Code::InvalidArgument, "there is no option '{}'; see {} --help{}", name, command,
                  internal::did_you_mean(name, long_options_of(of)));
}

// Refuses an unknown command. (The parser would say that a command is missing.)
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  if (word.starts_with("-")) return check_option(app, word, "cohort");
  if (std::ranges::find(names, word) != names.end()) return;
  internal::raise(Code::InvalidArgument,
                  "there is no command '{}'; the commands are {}; see cohort --help{}", word,
                  fmt::join(names, ", "), internal::did_you_mean(word, names));
}

// "cohort run" where that command was typed.
std::string full_name(const CLI::App& app) {
  const std::vector<CLI::App*> typed = app.get_subcommands();
  return typed.empty() ? "cohort" : "cohort " + typed.front()->get_name();
}

// Refuses unknown options. (The parser lists them without a suggestion.)
void check_options(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("--") || word == "--") continue;
    const CLI::App& command = *app.get_subcommands().front();
    check_option(command, word, full_name(app));
  }
}

// Does not throw if stderr is closed.
void complain(const std::string& text) { std::fprintf(stderr, "cohort: %s\n", text.c_str()); }

// The output may be lost, for example because a disk is full.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  complain(std::string("the output cannot be written: ") + std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

int run(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app{"Cohort: distributed training for C++", "cohort"};
  app.require_subcommand(1);
  app.set_version_flag("--version", COHORT_VERSION);
  app.footer(kExamples);
  add_run(app, exit_code);
  add_join(app, exit_code);
  add_serve(app, exit_code);
  add_status(app, exit_code);
  add_doctor(app, exit_code);
  add_inspect(app, exit_code);
  add_credentials(app, exit_code);
  add_completion(app);
  if (argc > 1) check_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    if (!app.get_subcommands().empty()) check_options(app);  // a misspelt option may be the cause
    complain(fmt::format("{}; see {} --help", error.what(), full_name(app)));
    return kBadInput;
  }
  return exit_code;
}

// Keeps files that are opened later from becoming the standard streams.
void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace
}  // namespace cohort::cli

int main(int argc, char** argv) {
  using namespace cohort::cli;
  open_standard_streams();
  try {
    return flushed(run(argc, argv));
  } catch (const cohort::Error& error) {
    complain(error.message());
    return error.code() == cohort::Code::InvalidArgument ? kBadInput : 1;
  } catch (const std::exception& error) {
    complain(error.what());
    return 1;
  }
}
