#include "runtime/session_impl.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/raise.h"
#include "base/time_limit.h"

namespace cohort::internal {
namespace {

RunOptions checked(RunOptions options) {
  options.timeout = given_time_limit("Session", "the timeout of a run", options.timeout,
                                     "leave it empty for that of the session");
  return options;
}

void check_value(const GraphImpl& graph, NodeOutput node_output, const Tensor& tensor,
                 const Tensor& value) {
  const bool has_value = value.defined() && !value.is_symbolic();
  if (has_value && value.dtype() == tensor.dtype() &&
      value.shape().is_compatible_with(tensor.shape())) {
    return;
  }
  const std::string name = output_name(graph, node_output);
  if (!has_value) {
    raise(Code::InvalidArgument, "[Session] '{}' was fed a tensor that has no value", name);
  }
  if (value.dtype() != tensor.dtype()) {
    raise(Code::InvalidArgument, "[Session] '{}' is {}, but was fed {}", name,
          to_string(tensor.dtype()), to_string(value.dtype()));
  }
  raise(Code::InvalidArgument, "[Session] '{}' has shape {}, but was fed {}", name,
        tensor.shape().to_string(), value.shape().to_string());
}

// The key of a request in a map of prepared runs.
std::vector<NodeOutput> signature_of(const RunRequest& request) {
  std::vector<NodeOutput> key = request.feeds;
  key.push_back({-1, -1});
  key.insert(key.end(), request.fetches.begin(), request.fetches.end());
  for (const int over : request.over) key.push_back({-1, over});
  return key;
}

// Runs that feed and fetch the same share a signature, in whatever order they ask.
void sort_feeds(std::vector<NodeOutput>& feeds, std::vector<Tensor>& values) {
  if (std::ranges::is_sorted(feeds)) return;
  std::vector<std::pair<NodeOutput, Tensor>> both;
  for (size_t i = 0; i < feeds.size(); ++i) both.emplace_back(feeds[i], values[i]);
  std::ranges::sort(both, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < both.size(); ++i) std::tie(feeds[i], values[i]) = std::move(both[i]);
}

// Returns the fetches as they were asked for, or nothing when they were in order, each once.
std::vector<NodeOutput> sort_fetches(std::vector<NodeOutput>& fetches) {
  const auto out_of_order = [](const NodeOutput& a, const NodeOutput& b) { return !(a < b); };
  if (std::ranges::adjacent_find(fetches, out_of_order) == fetches.end()) return {};
  std::vector<NodeOutput> asked = fetches;
  std::ranges::sort(fetches);
  fetches.erase(std::unique(fetches.begin(), fetches.end()), fetches.end());
  return asked;
}

std::vector<Tensor> as_asked(const std::vector<NodeOutput>& asked,
                             const std::vector<NodeOutput>& sorted,
                             const std::vector<Tensor>& results) {
  std::vector<Tensor> all;
  for (const NodeOutput& node_output : asked) {
    const auto found = std::ranges::lower_bound(sorted, node_output);
    all.push_back(results[static_cast<size_t>(found - sorted.begin())]);
  }
  return all;
}

std::set<NodeOutput> set_of(const std::vector<NodeOutput>& node_outputs) {
  return {node_outputs.begin(), node_outputs.end()};
}

bool makes_handles(const Node& node) {
  const auto is_resource = [](const Spec& spec) { return spec.dtype == kResource; };
  return !node.outputs.empty() && std::ranges::all_of(node.outputs, is_resource);
}

}  // namespace

// A run in pieces: which of its nodes have run, and the values that later pieces take from these
// nodes. Handles of state are not values; the nodes that make them run whenever they are needed.
// One piece runs at a time. Thread-safe.
class PartialRunState {
 public:
  // Runs a request with these values of its feeds; returns the values of its fetches.
  using Execute =
      std::function<std::vector<Tensor>(const RunRequest&, const std::vector<Tensor>& values)>;

  PartialRunState(std::shared_ptr<const GraphImpl> graph, RunRequest declared)
      : graph_(std::move(graph)),
        declared_(std::move(declared)),
        all_(needed_nodes(*graph_, declared_)),
        feeds_(set_of(declared_.feeds)),
        fetches_(set_of(declared_.fetches)) {}

  // Runs one piece. Throws InvalidArgument, and changes nothing, for a feed or fetch that was not
  // declared, comes twice, or cannot be computed yet. An error of `execute` ends the run: later
  // pieces throw it, too.
  std::vector<Tensor> advance(const GraphImpl& graph, const RunRequest& asked,
                              const std::vector<Tensor>& values, const Execute& execute) {
    const std::lock_guard one_at_a_time(turn_);
    if (&graph != graph_.get()) {
      raise(Code::InvalidArgument, "[PartialRun] the run was set up by a session of another graph");
    }
    throw_if_error(failure_);
    check(asked);
    std::set<NodeOutput> known = set_of(asked.feeds);
    for (const auto& [node_output, value] : values_) known.insert(node_output);
    RunRequest bounded{.feeds = declared_.feeds,
                       .fetches = asked.fetches,
                       .over = std::vector<int>(over_.begin(), over_.end())};
    bounded.feeds.insert(bounded.feeds.end(), known.begin(), known.end());
    const std::vector<int> nodes = needed_nodes(*graph_, bounded);
    check_computable(asked, nodes, known);

    for (size_t i = 0; i < asked.feeds.size(); ++i) values_[asked.feeds[i]] = values[i];
    fed_.insert(asked.feeds.begin(), asked.feeds.end());
    std::vector<Tensor> results;
    failure_ = capture_status([&] { results = run(asked, nodes, execute); });
    throw_if_error(failure_);
    fetched_.insert(asked.fetches.begin(), asked.fetches.end());
    if (fetched_ == fetches_) values_.clear();
    return results;
  }

 private:
  void check(const RunRequest& asked) const {
    const auto demand = [&](NodeOutput node_output, const std::set<NodeOutput>& among,
                            const std::set<NodeOutput>& before, std::string_view what) {
      if (!among.contains(node_output)) {
        raise(Code::InvalidArgument, "[PartialRun] '{}' was not declared as a {} by its setup",
              output_name(*graph_, node_output), what);
      }
      if (before.contains(node_output)) {
        raise(Code::InvalidArgument,
              "[PartialRun] the {} '{}' was already part of an earlier piece", what,
              output_name(*graph_, node_output));
      }
    };
    for (const NodeOutput feed : asked.feeds) demand(feed, feeds_, fed_, "feed");
    for (const NodeOutput fetch : asked.fetches) demand(fetch, fetches_, fetched_, "fetch");
  }

  void check_computable(const RunRequest& asked, const std::vector<int>& nodes,
                        const std::set<NodeOutput>& known) const {
    const auto demand = [&](NodeOutput input) {
      if (!feeds_.contains(input) || known.contains(input)) return;
      raise(Code::InvalidArgument,
            "[PartialRun] a fetch of this piece needs '{}', which has not been fed yet",
            output_name(*graph_, input));
    };
    for (const NodeOutput fetch : asked.fetches) demand(fetch);
    for (const int id : nodes) {
      for (const NodeOutput input : graph_->node(id).inputs) demand(input);
    }
  }

  // The outputs of nodes of this piece that later pieces will take.
  std::vector<NodeOutput> kept_of(const std::set<int>& nodes, const RunRequest& asked) const {
    const std::set<NodeOutput> returned = set_of(asked.fetches);
    std::set<NodeOutput> kept;
    const auto keep = [&](NodeOutput node_output) {
      if (nodes.contains(node_output.node) && !feeds_.contains(node_output) &&
          !graph_->is_handle(node_output)) {
        kept.insert(node_output);
      }
    };
    for (const int id : all_) {
      if (nodes.contains(id) || over_.contains(id)) continue;
      for (const NodeOutput input : graph_->node(id).inputs) keep(input);
    }
    for (const NodeOutput fetch : fetches_) {
      if (!returned.contains(fetch)) keep(fetch);
    }
    return {kept.begin(), kept.end()};
  }

  std::vector<Tensor> run(const RunRequest& asked, const std::vector<int>& nodes,
                          const Execute& execute) {
    if (asked.fetches.empty()) return {};
    const std::set<int> running(nodes.begin(), nodes.end());
    RunRequest request{.fetches = asked.fetches, .over = {over_.begin(), over_.end()}};
    std::vector<Tensor> given;
    const std::vector<NodeOutput> kept = kept_of(running, asked);
    request.fetches.insert(request.fetches.end(), kept.begin(), kept.end());
    for (const auto& [node_output, value] : values_) {
      request.feeds.push_back(node_output);
      given.push_back(value);
    }
    std::vector<Tensor> results = execute(request, given);
    for (size_t i = 0; i < kept.size(); ++i) values_[kept[i]] = results[asked.fetches.size() + i];
    for (const int id : nodes) {
      if (!makes_handles(graph_->node(id))) over_.insert(id);
    }
    results.resize(asked.fetches.size());
    return results;
  }

  const std::shared_ptr<const GraphImpl> graph_;
  const RunRequest declared_;
  const std::vector<int> all_;  // nodes that the declared fetches need
  const std::set<NodeOutput> feeds_;
  const std::set<NodeOutput> fetches_;

  Turn turn_;                            // of the thread that runs a piece
  std::map<NodeOutput, Tensor> values_;  // fed or computed; guarded by turn_, as all below
  std::set<NodeOutput> fed_;
  std::set<NodeOutput> fetched_;
  std::set<int> over_;
  Status failure_;
};

RunRequest SessionImpl::request_for(const std::vector<Tensor>& fetches,
                                    const std::vector<Tensor>& fed) const {
  RunRequest request;
  for (const Tensor& tensor : fed) {
    const NodeOutput node_output = graph_->node_output(tensor);
    if (tensor.dtype() == kResource) {
      raise(Code::InvalidArgument, "[Session] '{}' is a handle of state and cannot be fed",
            output_name(*graph_, node_output));
    }
    if (std::ranges::find(request.feeds, node_output) != request.feeds.end()) {
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
                                     const RunOptions& given, RunMetadata* metadata) {
  const RunOptions options = checked(given);
  std::vector<Tensor> values;
  RunRequest request = request_for(fetches, feeds, values);
  sort_feeds(request.feeds, values);
  const std::vector<NodeOutput> asked = sort_fetches(request.fetches);
  std::vector<Tensor> results =
      execute(*prepare(request, request_limit(options.timeout)), values,
              {.options = options, .metadata = options.trace ? metadata : nullptr});
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
                                              const RunOptions& given,
                                              std::optional<uint64_t> number) {
  const RunOptions options = checked(given);
  if (values.size() != entry.feeds.size()) {
    raise(Code::InvalidArgument, "[Callable] takes {} values, got {}", entry.feeds.size(),
          values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    check_value(*graph_, graph_->node_output(entry.feeds[i]), entry.feeds[i], values[i]);
  }
  return execute(*entry.run, values, {.options = options, .number = number});
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
                       return execute(*prepare(request, {}), given, {});
                     });
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

}  // namespace cohort::internal
