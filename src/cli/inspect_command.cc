#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/companion.h"

namespace cohort::cli {
namespace {

constexpr char kInspectExample[] =
    "Examples:\n"
    "  cohort inspect model/ckpt-3              # a checkpoint, by prefix or folder\n"
    "  cohort inspect --verify model            # the last one in a folder, every byte of it\n"
    "  cohort inspect data/train-00001.tfrecord\n"
    "  cohort inspect --dot graph.bin | dot -Tsvg > graph.svg";

struct TypedInspect {
  std::string path = {};
  std::string kind = "auto";
  bool verify = false;
  bool dot = false;
  int limit = 20;
};

}  // namespace

void add_inspect(CLI::App& app, int&) {
  CLI::App* const command = app.add_subcommand("inspect", "Say what is in a file");
  command->footer(kInspectExample);
  const auto typed = std::make_shared<TypedInspect>();
  command->add_option("path", typed->path, "A file, a checkpoint's prefix, a folder")->required();
  command->add_option("--kind", typed->kind, "What it is, where names and bytes do not tell")
      ->check(CLI::IsMember({"auto", "checkpoint", "events", "tfrecord", "safetensors", "graph"}));
  command->add_flag("--verify", typed->verify, "Read everything and compare checksums");
  command->add_flag("--dot", typed->dot, "A graph as a picture for Graphviz");
  command->add_option("--limit", typed->limit, "How many entries to show; 0 for all (20)")
      ->check(CLI::Range(0, 1'000'000'000));
  command->callback([typed] {
    become_compute({"inspect", typed->kind, typed->path, typed->verify ? "1" : "0",
                    typed->dot ? "1" : "0", std::to_string(typed->limit)});
  });
}

}  // namespace cohort::cli
