#include <fmt/format.h>

#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/graph.h"
#include "cohort/summary.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"

namespace cohort::summary {
namespace {

using internal::raise;

// The scalars that a graph marks as summaries.
struct Marked {
  internal::Mutex mutex;
  std::map<std::string, Tensor> by_tag;  // guarded by mutex
};

std::shared_ptr<internal::GraphImpl> graph_being_built(const char* what) {
  if (building_graph()) return internal::GraphAccess::impl(get_default_graph());
  raise(
      Code::FailedPrecondition,
      "[summary::{}] no graph is being built; call it inside Graph::as_default(), or write values "
      "with SummaryWriter::add_scalar()",
      what);
}

void check(const std::string& tag, const Tensor& value, const internal::GraphImpl& graph) {
  if (tag.empty()) {
    raise(Code::InvalidArgument, "[summary::scalar] the tag is empty; give the value a name");
  }
  if (!value.is_symbolic() || !graph.owns(value)) {
    raise(Code::InvalidArgument,
          "[summary::scalar] '{}' must be a tensor of the graph being built, got {}", tag,
          value.to_string());
  }
  const bool number = value.dtype() != kString && value.dtype() != kResource;
  if (number && value.shape().is_compatible_with({})) return;
  raise(Code::InvalidArgument, "[summary::scalar] '{}' must be one number, got shape {}, {}", tag,
        value.shape().to_string(), to_string(value.dtype()));
}

}  // namespace

Tensor scalar(const std::string& tag, const Tensor& value) {
  const auto graph = graph_being_built("scalar");
  check(tag, value, *graph);
  auto& marked = graph->companion<Marked>();
  const std::string first = internal::name_prefix() + tag;
  std::string free = first;
  const std::lock_guard lock(marked.mutex);
  for (int number = 1; marked.by_tag.contains(free); ++number) {
    free = fmt::format("{}_{}", first, number);
  }
  marked.by_tag.emplace(free, value);
  return value;
}

std::map<std::string, Tensor> merge_all() {
  auto& marked = graph_being_built("merge_all")->companion<Marked>();
  const std::lock_guard lock(marked.mutex);
  return marked.by_tag;
}

}  // namespace cohort::summary
