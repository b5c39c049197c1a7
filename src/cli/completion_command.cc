#include <fmt/ranges.h>

#include "cli/command.h"

namespace cohort::cli {

std::vector<std::string> long_options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

namespace {

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

}  // namespace

void add_completion(CLI::App& app, int&) {
  CLI::App* const command =
      app.add_subcommand("completion", "Print a script that completes this command in a shell");
  command->footer(kCompletionExample);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] { fmt::print("{}", script_for(*shell, app)); });
}

}  // namespace cohort::cli
