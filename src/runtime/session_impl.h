#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/recently_used.h"
#include "cohort/session.h"
#include "graph/graph_impl.h"
#include "graph/prune.h"

namespace cohort::internal {

// A signature that is ready to run; what it holds depends on where it runs.
class PreparedRun {
 public:
  virtual ~PreparedRun() = default;
};

// A signature whose feeds come by position, ready to run.
struct PreparedCall {
  std::vector<Tensor> feeds;
  std::shared_ptr<const PreparedRun> run;
};

class PartialRunState;

// What stands behind a Session: the rules that do not depend on where a graph runs, and four
// questions that do. Thread-safe.
class SessionImpl {
 public:
  explicit SessionImpl(std::shared_ptr<GraphImpl> graph) : graph_(std::move(graph)) {}
  virtual ~SessionImpl() = default;

  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                          const RunOptions& options, RunMetadata* metadata);
  // Within the limit, which 0 leaves to the session. What was prepared for it is released with it.
  std::shared_ptr<const PreparedCall> make_callable(const std::vector<Tensor>& feeds,
                                                    const std::vector<Tensor>& fetches,
                                                    std::chrono::milliseconds limit = {});
  std::vector<Tensor> run_callable(const PreparedCall& call, const std::vector<Tensor>& values,
                                   const RunOptions& options = {});

  std::shared_ptr<PartialRunState> partial_run_setup(const std::vector<Tensor>& fetches,
                                                     const std::vector<Tensor>& feeds);
  std::vector<Tensor> partial_run(PartialRunState& run, const std::vector<Tensor>& fetches,
                                  const Feeds& feeds);

  virtual std::vector<std::string> list_devices() const = 0;
  virtual void close() = 0;

 protected:
  const GraphImpl& graph() const { return *graph_; }

  // Throws FailedPrecondition once it is closed.
  virtual void check_open() const = 0;
  // Within the limit, which 0 leaves to the session.
  virtual std::shared_ptr<const PreparedRun> make_run(const RunRequest& request,
                                                      std::chrono::milliseconds limit) = 0;
  // `values`: of the request's feeds, in their order, already checked.
  virtual std::vector<Tensor> execute(const PreparedRun& run, const std::vector<Tensor>& values,
                                      const RunOptions& options, RunMetadata* metadata) = 0;

 private:
  // Found among those used last, or made.
  std::shared_ptr<const PreparedRun> prepare(const RunRequest& request,
                                             std::chrono::milliseconds limit);
  RunRequest request_for(const std::vector<Tensor>& fetches, const std::vector<Tensor>& fed) const;
  // The same for values, which are checked and come behind one another.
  RunRequest request_for(const std::vector<Tensor>& fetches, const Feeds& feeds,
                         std::vector<Tensor>& values) const;

  using Signature = std::vector<NodeOutput>;
  static constexpr size_t kMaxRecentRuns = 256;

  const std::shared_ptr<GraphImpl> graph_;
  std::mutex mutex_;
  RecentlyUsed<Signature, std::shared_ptr<const PreparedRun>> recent_;  // guarded by mutex_
};

// What tells requests apart, for a map of those that were prepared.
std::vector<NodeOutput> signature_of(const RunRequest& request);

// Throws InvalidArgument, naming it, when a placeholder is needed and not fed.
void check_placeholders(const GraphImpl& graph, const RunRequest& request);

// Writes a line about placement to stderr: for people, and for tools that look for it, so bare.
void print_placement(const std::string& line);
// "name: (Op): /job:.../device:CPU:0"
std::string placement_line(const Node& node, const DeviceName& device);

// A session on the server at "host:port". Defined by the module that knows servers, src/cluster.
std::shared_ptr<SessionImpl> open_remote_session(std::shared_ptr<GraphImpl> graph,
                                                 const std::string& address,
                                                 const SessionOptions& options);

}  // namespace cohort::internal
