#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/raise.h"
#include "cli/compute/inspect_kinds.h"
#include "cohort/graph.h"

namespace cohort::cli {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) internal::raise(Code::NotFound, "[Inspect] there is no file '{}'", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Most frequent first.
std::vector<std::pair<std::string, int>> sorted(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> all(counts.begin(), counts.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

}  // namespace

bool is_graph(const std::string& path) {
  const std::string bytes = bytes_of(path);
  return !bytes.empty() && capture_status([&] { (void)Graph::deserialize(bytes); }).ok();
}

void inspect_graph(const std::string& path, const InspectOptions& options) {
  const Graph graph = Graph::deserialize(bytes_of(path));
  if (options.dot) return fmt::print("{}", graph.to_dot());
  std::map<std::string, int> ops, devices;
  for (const NodeInfo& node : graph.nodes()) {
    ++ops[node.op];
    ++devices[node.device.empty() ? "anywhere" : node.device];
  }
  fmt::print("graph {}\n{} nodes\n", path, graph.size());
  for (const auto& [device, count] : sorted(devices)) fmt::print("  {} on {}\n", count, device);
  const auto by_count = sorted(ops);
  for (size_t i = 0; i < shown(by_count.size(), options); ++i) {
    fmt::print("  {:<30} {}\n", by_count[i].first, by_count[i].second);
  }
  print_rest(by_count.size(), options);
}

}  // namespace cohort::cli
