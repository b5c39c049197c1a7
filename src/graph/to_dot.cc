#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>

#include "base/text.h"
#include "cohort/graph.h"
#include "graph/graph_impl.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::array<std::string_view, 8> kColours = {"#8dd3c7", "#ffffb3", "#bebada", "#fb8072",
                                                      "#80b1d3", "#fdb462", "#b3de69", "#fccde5"};
constexpr int kMaxClusterDepth = 8;

// Nested name scopes, and the nodes that are directly in each.
struct ScopeTree {
  std::map<std::string, ScopeTree> inner = {};
  std::vector<int> nodes = {};

  void add(std::string_view name, int id) {
    ScopeTree* scope = this;
    for (int depth = 0; depth < kMaxClusterDepth; ++depth) {
      const size_t slash = name.find('/');
      if (slash == std::string_view::npos) break;
      scope = &scope->inner[std::string(name.substr(0, slash))];
      name.remove_prefix(slash + 1);
    }
    scope->nodes.push_back(id);
  }
};

class DotWriter {
 public:
  explicit DotWriter(const GraphImpl& graph) : graph_(graph), size_(graph.size()) {}

  std::string write() {
    ScopeTree scopes;
    for (int id = 0; id < size_; ++id) scopes.add(graph_.node(id).name, id);
    line("digraph {{");
    line("  node [shape=box, style=\"rounded,filled\", fillcolor=white];");
    write_scope(scopes);
    for (int id = 0; id < size_; ++id) write_edges(id);
    line("}}");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void write_scope(const ScopeTree& scope) {
    for (const int id : scope.nodes) write_node(id);
    for (const auto& [name, inner] : scope.inner) {
      line("  subgraph cluster_{} {{ label=\"{}\";", clusters_++, escape_quotes(name));
      write_scope(inner);
      line("  }}");
    }
  }

  void write_node(int id) {
    const Node& node = graph_.node(id);
    const std::string device = own_request(graph_, id).to_string();
    const std::string fill =
        device.empty() ? "" : fmt::format(", fillcolor=\"{}\"", colour(device));
    // "\n" in the file, not in the text: dot breaks the line there.
    const std::string where = device.empty() ? "" : "\\n" + device;
    line("  n{} [label=\"{}\\n{}{}\"{}];", id, escape_quotes(node.name), node.op->name, where,
         fill);
  }

  void write_edges(int id) {
    const Node& node = graph_.node(id);
    for (const NodeOutput input : node.inputs) {
      if (input.output == 0) {
        line("  n{} -> n{};", input.node, id);
      } else {
        line("  n{} -> n{} [taillabel=\"{}\"];", input.node, id, input.output);
      }
    }
    for (const int before : node.controls) line("  n{} -> n{} [style=dashed];", before, id);
  }

  // One per device, in the order in which devices turn up.
  std::string_view colour(const std::string& device) {
    const size_t number = colours_.try_emplace(device, colours_.size()).first->second;
    return kColours[number % kColours.size()];
  }

  const GraphImpl& graph_;
  const int size_;
  std::string text_;
  int clusters_ = 0;
  std::map<std::string, size_t> colours_;
};

}  // namespace
}  // namespace internal

std::string Graph::to_dot() const { return internal::DotWriter(*impl_).write(); }

}  // namespace cohort
