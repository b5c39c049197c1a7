#include "runtime/session_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/raise.h"
#include "graph/placer.h"
#include "runtime/run_parts.h"

namespace cohort::internal {
namespace {

std::vector<DeviceName> local_devices() {
  std::vector<DeviceName> names;
  for (const std::string& name : cohort::list_devices()) names.push_back(DeviceName::parse(name));
  return names;
}

void check_value(const GraphImpl& graph, Endpoint endpoint, const Tensor& tensor,
                 const Tensor& value) {
  const std::string name = endpoint_name(graph, endpoint);
  if (value.is_symbolic() || !value.defined()) {
    raise(Code::InvalidArgument, "[Session] '{}' was fed something without a value", name);
  }
  if (value.dtype() != tensor.dtype()) {
    raise(Code::InvalidArgument, "[Session] '{}' is {}, but was fed {}", name,
          to_string(tensor.dtype()), to_string(value.dtype()));
  }
  if (!value.shape().is_compatible_with(tensor.shape())) {
    raise(Code::InvalidArgument, "[Session] '{}' has shape {}, but was fed {}", name,
          tensor.shape().to_string(), value.shape().to_string());
  }
}

void check_placeholders(const GraphImpl& graph, const RunRequest& request) {
  for (const int id : needed_nodes(graph, request)) {
    const Node& node = graph.node(id);
    if (node.op->name != "Placeholder") continue;
    raise(Code::InvalidArgument,
          "[Session] placeholder '{}' ({}, shape {}) is needed but was not fed", node.name,
          to_string(node.outputs[0].dtype), node.outputs[0].shape.to_string());
  }
}

std::vector<Endpoint> cache_key(const RunRequest& request) {
  std::vector<Endpoint> key = request.feeds;
  key.push_back({-1, -1});
  key.insert(key.end(), request.fetches.begin(), request.fetches.end());
  return key;
}

void log_placement(const Node& node, const DeviceName& device) {
  const std::string line =
      fmt::format("{}: ({}): {}\n", node.name, node.op->name, device.to_string());
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

// A run that is under way: known to close(), and counted.
struct SessionImpl::RunHandle {
  explicit RunHandle(SessionImpl& owner) : session(owner) {
    const std::lock_guard lock(session.mutex_);
    if (session.closed_) {
      raise(Code::FailedPrecondition, "[Session] the session is closed");
    }
    id = session.next_run_++;
    session.running_[id] = &cancellation;
  }
  ~RunHandle() {
    const std::lock_guard lock(session.mutex_);
    session.running_.erase(id);
    session.idle_.notify_all();
  }

  SessionImpl& session;
  Cancellation cancellation;
  int id = 0;
};

SessionImpl::SessionImpl(std::shared_ptr<GraphImpl> graph, const SessionOptions& options)
    : graph_(std::move(graph)), options_(options), devices_(local_devices()) {
  for (const DeviceName& device : devices_) resources_[device.to_string()];
}

RunRequest SessionImpl::request_for(const std::vector<Tensor>& fetches,
                                    const std::vector<Tensor>& fed) const {
  RunRequest request;
  for (const Tensor& tensor : fed) {
    const Endpoint endpoint = graph_->endpoint(tensor);
    if (std::find(request.feeds.begin(), request.feeds.end(), endpoint) != request.feeds.end()) {
      raise(Code::InvalidArgument, "[Session] '{}' is fed twice", endpoint_name(*graph_, endpoint));
    }
    request.feeds.push_back(endpoint);
  }
  for (const Tensor& tensor : fetches) {
    const Endpoint endpoint = graph_->endpoint(tensor);
    if (tensor.dtype() == kResource) {
      raise(Code::InvalidArgument, "[Session] '{}' is a handle and cannot be fetched; read it",
            endpoint_name(*graph_, endpoint));
    }
    request.fetches.push_back(endpoint);
  }
  return request;
}

std::shared_ptr<const CompiledRun> SessionImpl::compiled(const RunRequest& request) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const CompiledRun>& entry = cache_[cache_key(request)];
  if (!entry) entry = compile_run(request);
  return entry;
}

void SessionImpl::place_new_nodes() {
  const int first = static_cast<int>(placed_.size());
  const std::vector<DeviceName> fresh = place_nodes(
      *graph_, first, placed_,
      {.devices = devices_,
       .home = devices_.front(),
       .allow_soft_placement = options_.allow_soft_placement,
       .hint = "this session runs in its own process; devices of other tasks need a session with a "
               "target, Session(\"grpc://host:port\")"});
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (options_.log_device_placement)
      log_placement(graph_->node(first + static_cast<int>(i)), fresh[i]);
    placed_.push_back(fresh[i]);
  }
}

std::shared_ptr<const CompiledRun> SessionImpl::compile_run(const RunRequest& request) {
  if (graph_->size() == 0) raise(Code::FailedPrecondition, "[Session] the graph has no nodes");
  check_placeholders(*graph_, request);
  place_new_nodes();
  return compile_parts(*graph_, placed_, request);
}

std::vector<Tensor> SessionImpl::execute_run(const CompiledRun& run,
                                             const std::vector<Tensor>& values,
                                             std::chrono::milliseconds timeout,
                                             RunMetadata* metadata) {
  RunHandle handle(*this);
  const auto limit = timeout.count() > 0 ? timeout : options_.timeout;
  return run_parts(run, values, resources_, handle.cancellation, limit, metadata);
}

std::vector<Tensor> SessionImpl::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                     const RunOptions& options, RunMetadata* metadata) {
  std::vector<Tensor> fed;
  std::vector<Tensor> values;
  for (const Feed& feed : feeds) {
    fed.push_back(feed.tensor);
    values.push_back(feed.value);
  }
  const RunRequest request = request_for(fetches, fed);
  for (size_t i = 0; i < fed.size(); ++i) check_value(*graph_, request.feeds[i], fed[i], values[i]);
  return execute_run(*compiled(request), values, options.timeout,
                     options.trace ? metadata : nullptr);
}

int SessionImpl::make_callable(const std::vector<Tensor>& feeds,
                               const std::vector<Tensor>& fetches) {
  CallableEntry entry{feeds, compiled(request_for(fetches, feeds))};
  const std::lock_guard lock(mutex_);
  callables_.push_back(std::move(entry));
  return static_cast<int>(callables_.size()) - 1;
}

std::vector<Tensor> SessionImpl::run_callable(int id, const std::vector<Tensor>& values) {
  CallableEntry entry;
  {
    const std::lock_guard lock(mutex_);
    entry = callables_.at(static_cast<size_t>(id));
  }
  if (values.size() != entry.feeds.size()) {
    raise(Code::InvalidArgument, "[Callable] takes {} values, got {}", entry.feeds.size(),
          values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    check_value(*graph_, graph_->endpoint(entry.feeds[i]), entry.feeds[i], values[i]);
  }
  return execute_run(*entry.compiled, values, {}, nullptr);
}

std::vector<std::string> SessionImpl::list_devices() const {
  std::vector<std::string> names;
  for (const DeviceName& device : devices_) names.push_back(device.to_string());
  return names;
}

void SessionImpl::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (const auto& [id, cancellation] : running_) {
    cancellation->cancel({.code = Code::Cancelled, .message = "[Session] the session was closed"});
  }
  idle_.wait(lock, [&] { return running_.empty(); });
}

}  // namespace cohort::internal
