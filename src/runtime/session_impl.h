#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/lru_cache.h"
#include "base/mutex.h"
#include "cohort/session.h"
#include "graph/graph_impl.h"
#include "graph/run_request.h"

namespace cohort::internal {

// A prepared signature; its content depends on where the run takes place.
class PreparedRun {
 public:
  virtual ~PreparedRun() = default;
};

// A prepared signature whose feeds are given by position.
struct PreparedCall {
  std::vector<Tensor> feeds;
  std::shared_ptr<const PreparedRun> run;
};

class PartialRunState;

// How a prepared run is executed.
struct CallSetting {
  RunOptions options = {};
  RunMetadata* metadata = nullptr;
  // The number that random draws take, see RunNumber. Empty: the session counts its runs.
  std::optional<uint64_t> number = std::nullopt;
};

// The implementation of a Session: the rules that do not depend on where a graph runs, and four
// functions that do. Thread-safe.
class SessionImpl {
 public:
  explicit SessionImpl(std::shared_ptr<GraphImpl> graph) : graph_(std::move(graph)) {}
  virtual ~SessionImpl() = default;

  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                          const RunOptions& options, RunMetadata* metadata);
  // Prepares a run of these feeds and fetches within `limit`; 0 means the limit of the session. The
  // result holds what was prepared, and its destructor releases it.
  std::shared_ptr<const PreparedCall> make_callable(const std::vector<Tensor>& feeds,
                                                    const std::vector<Tensor>& fetches,
                                                    std::chrono::milliseconds limit = {});
  std::vector<Tensor> run_callable(const PreparedCall& call, const std::vector<Tensor>& values,
                                   const RunOptions& options = {},
                                   std::optional<uint64_t> number = std::nullopt);

  std::shared_ptr<PartialRunState> partial_run_setup(const std::vector<Tensor>& fetches,
                                                     const std::vector<Tensor>& feeds);
  std::vector<Tensor> partial_run(PartialRunState& run, const std::vector<Tensor>& fetches,
                                  const Feeds& feeds);

  virtual std::vector<std::string> list_devices() const = 0;
  virtual void close() = 0;

 protected:
  const GraphImpl& graph() const { return *graph_; }

  // Throws FailedPrecondition if the session is closed.
  virtual void check_open() const = 0;
  // Prepares the run within `limit`; 0 means the limit of the session.
  virtual std::shared_ptr<const PreparedRun> make_run(const RunRequest& request,
                                                      std::chrono::milliseconds limit) = 0;
  // `values` are the values of the request's feeds, in the same order and already checked.
  virtual std::vector<Tensor> execute(const PreparedRun& run, const std::vector<Tensor>& values,
                                      const CallSetting& setting) = 0;

 private:
  // Finds the run among the recent runs, or makes it.
  std::shared_ptr<const PreparedRun> prepare(const RunRequest& request,
                                             std::chrono::milliseconds limit);
  RunRequest request_for(const std::vector<Tensor>& fetches, const std::vector<Tensor>& fed) const;
  // Makes the request for feeds with values, which are checked and appended to `values`.
  RunRequest request_for(const std::vector<Tensor>& fetches, const Feeds& feeds,
                         std::vector<Tensor>& values) const;

  using Signature = std::vector<NodeOutput>;
  static constexpr size_t kMaxRecentRuns = 256;

  const std::shared_ptr<GraphImpl> graph_;
  Mutex mutex_;
  LruCache<Signature, std::shared_ptr<const PreparedRun>> recent_;  // guarded by mutex_
};

// Throws InvalidArgument, naming the placeholder, if a needed placeholder is not fed.
void check_placeholders(const GraphImpl& graph, const RunRequest& request);

// Writes a line about placement to stderr, without a prefix, for users and for tools that parse it.
void print_placement(const std::string& line);

// A session on the server at "host:port". Defined in src/cluster, which knows servers.
std::shared_ptr<SessionImpl> open_remote_session(std::shared_ptr<GraphImpl> graph,
                                                 const std::string& address,
                                                 const SessionOptions& options);

}  // namespace cohort::internal
