#include "runtime/session_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

#include "base/raise.h"
#include "runtime/partial_run.h"

namespace cohort::internal {
namespace {

void check_value(const GraphImpl& graph, NodeOutput node_output, const Tensor& tensor,
                 const Tensor& value) {
  const bool has_value = value.defined() && !value.is_symbolic();
  if (has_value && value.dtype() == tensor.dtype() &&
      value.shape().is_compatible_with(tensor.shape())) {
    return;
  }
  const std::string name = output_name(graph, node_output);
  if (!has_value) {
    raise(Code::InvalidArgument, "[Session] '{}' was fed something without a value", name);
  }
  if (value.dtype() != tensor.dtype()) {
    raise(Code::InvalidArgument, "[Session] '{}' is {}, but was fed {}", name,
          to_string(tensor.dtype()), to_string(value.dtype()));
  }
  raise(Code::InvalidArgument, "[Session] '{}' has shape {}, but was fed {}", name,
        tensor.shape().to_string(), value.shape().to_string());
}

// Runs that feed and fetch the same share a signature, in whatever order they ask.
void sort_feeds(std::vector<NodeOutput>& feeds, std::vector<Tensor>& values) {
  if (std::is_sorted(feeds.begin(), feeds.end())) return;
  std::vector<std::pair<NodeOutput, Tensor>> both;
  for (size_t i = 0; i < feeds.size(); ++i) both.emplace_back(feeds[i], values[i]);
  std::sort(both.begin(), both.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < both.size(); ++i) std::tie(feeds[i], values[i]) = std::move(both[i]);
}

// Returns the fetches as they were asked for, or nothing when they were in order, each once.
std::vector<NodeOutput> sort_fetches(std::vector<NodeOutput>& fetches) {
  const auto out_of_order = [](const NodeOutput& a, const NodeOutput& b) { return !(a < b); };
  if (std::adjacent_find(fetches.begin(), fetches.end(), out_of_order) == fetches.end()) return {};
  std::vector<NodeOutput> asked = fetches;
  std::sort(fetches.begin(), fetches.end());
  fetches.erase(std::unique(fetches.begin(), fetches.end()), fetches.end());
  return asked;
}

std::vector<Tensor> as_asked(const std::vector<NodeOutput>& asked,
                             const std::vector<NodeOutput>& sorted,
                             const std::vector<Tensor>& results) {
  std::vector<Tensor> all;
  for (const NodeOutput& node_output : asked) {
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), node_output);
    all.push_back(results[static_cast<size_t>(found - sorted.begin())]);
  }
  return all;
}

}  // namespace

RunRequest SessionImpl::request_for(const std::vector<Tensor>& fetches,
                                    const std::vector<Tensor>& fed) const {
  RunRequest request;
  for (const Tensor& tensor : fed) {
    const NodeOutput node_output = graph_->node_output(tensor);
    if (tensor.dtype() == kResource) {
      raise(Code::InvalidArgument, "[Session] '{}' is a handle of state and cannot be fed",
            output_name(*graph_, node_output));
    }
    if (std::find(request.feeds.begin(), request.feeds.end(), node_output) != request.feeds.end()) {
      raise(Code::InvalidArgument, "[Session] '{}' is fed twice",
            output_name(*graph_, node_output));
    }
    request.feeds.push_back(node_output);
  }
  for (const Tensor& tensor : fetches) {
    const NodeOutput node_output = graph_->node_output(tensor);
    if (tensor.dtype() == kResource) {
      raise(Code::InvalidArgument, "[Session] '{}' is a handle and cannot be fetched; read it",
            output_name(*graph_, node_output));
    }
    request.fetches.push_back(node_output);
  }
  return request;
}

RunRequest SessionImpl::request_for(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                    std::vector<Tensor>& values) const {
  std::vector<Tensor> fed;
  for (const Feed& feed : feeds) {
    fed.push_back(feed.tensor);
    values.push_back(feed.value);
  }
  RunRequest request = request_for(fetches, fed);
  for (size_t i = 0; i < fed.size(); ++i) check_value(*graph_, request.feeds[i], fed[i], values[i]);
  return request;
}

std::vector<Tensor> SessionImpl::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                     const RunOptions& options, RunMetadata* metadata) {
  std::vector<Tensor> values;
  RunRequest request = request_for(fetches, feeds, values);
  sort_feeds(request.feeds, values);
  const std::vector<NodeOutput> asked = sort_fetches(request.fetches);
  std::vector<Tensor> results = execute(*prepare(request, options.timeout), values, options,
                                        options.trace ? metadata : nullptr);
  if (asked.empty()) return results;
  return as_asked(asked, request.fetches, results);
}

std::shared_ptr<const PreparedRun> SessionImpl::prepare(const RunRequest& request,
                                                        std::chrono::milliseconds limit) {
  check_open();
  const Signature signature = signature_of(request);
  {
    const std::lock_guard lock(mutex_);
    if (const auto* found = recent_.find(signature)) return *found;
  }
  std::shared_ptr<const PreparedRun> made = make_run(request, limit);
  // These are destroyed after the lock is released, because their destructors may send messages.
  std::optional<std::shared_ptr<const PreparedRun>> replaced, oldest;
  const std::lock_guard lock(mutex_);
  replaced = recent_.put(signature, made);
  if (recent_.size() > kMaxRecentRuns) oldest = recent_.drop_oldest();
  return made;
}

std::shared_ptr<const PreparedCall> SessionImpl::make_callable(const std::vector<Tensor>& feeds,
                                                               const std::vector<Tensor>& fetches,
                                                               std::chrono::milliseconds limit) {
  check_open();
  return std::make_shared<PreparedCall>(
      PreparedCall{feeds, make_run(request_for(fetches, feeds), limit)});
}

std::vector<Tensor> SessionImpl::run_callable(const PreparedCall& entry,
                                              const std::vector<Tensor>& values,
                                              const RunOptions& options) {
  if (values.size() != entry.feeds.size()) {
    raise(Code::InvalidArgument, "[Callable] takes {} values, got {}", entry.feeds.size(),
          values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    check_value(*graph_, graph_->node_output(entry.feeds[i]), entry.feeds[i], values[i]);
  }
  return execute(*entry.run, values, options, nullptr);
}

std::shared_ptr<PartialRunState> SessionImpl::partial_run_setup(const std::vector<Tensor>& fetches,
                                                                const std::vector<Tensor>& feeds) {
  check_open();
  return std::make_shared<PartialRunState>(graph_, request_for(fetches, feeds));
}

std::vector<Tensor> SessionImpl::partial_run(PartialRunState& run,
                                             const std::vector<Tensor>& fetches,
                                             const Feeds& feeds) {
  check_open();
  std::vector<Tensor> values;
  const RunRequest asked = request_for(fetches, feeds, values);
  return run.advance(*graph_, asked, values,
                     [&](const RunRequest& request, const std::vector<Tensor>& given) {
                       return execute(*prepare(request, {}), given, {}, nullptr);
                     });
}

std::vector<NodeOutput> signature_of(const RunRequest& request) {
  std::vector<NodeOutput> key = request.feeds;
  key.push_back({-1, -1});
  key.insert(key.end(), request.fetches.begin(), request.fetches.end());
  for (const int over : request.over) key.push_back({-1, over});
  return key;
}

void check_placeholders(const GraphImpl& graph, const RunRequest& request) {
  for (const int id : needed_nodes(graph, request)) {
    const Node& node = graph.node(id);
    const Traits traits = node.op->traits;
    // A placeholder that is not a source has a default.
    if (!traits.has(Trait::Placeholder) || !traits.has(Trait::Source)) continue;
    raise(Code::InvalidArgument,
          "[Session] placeholder '{}' ({}, shape {}) is needed but was not fed", node.name,
          to_string(node.outputs[0].dtype), node.outputs[0].shape.to_string());
  }
}

void print_placement(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

std::string placement_line(const Node& node, const DeviceName& device) {
  return fmt::format("{}: ({}): {}", node.name, node.op->name, device.to_string());
}

}  // namespace cohort::internal
