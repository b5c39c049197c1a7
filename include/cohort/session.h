#pragma once

#include <chrono>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/credentials.h"
#include "cohort/graph.h"
#include "cohort/tensor.h"

namespace cohort {

namespace internal {
class SessionImpl;
class PartialRunState;
struct PreparedCall;
}  // namespace internal

// A tensor of the graph, and the value that a run uses for it instead of computing it.
struct Feed {
  Tensor tensor;
  Tensor value;
};
using Feeds = std::vector<Feed>;

struct SessionOptions {
  // Writes the devices to stderr ("Device mapping:", then one per line), and one line per node when
  // it is placed: "name: (Op): /job:.../device:CPU:0".
  bool log_device_placement = false;
  // A node whose device does not exist, or cannot run it, goes to another device of its task.
  bool allow_soft_placement = false;
  // Sends float32 values from device to device as bfloat16: half the bytes, 8 bits of mantissa.
  bool enable_bfloat16_sendrecv = false;
  // Runs longer than this end with DeadlineExceeded; 0 = no limit.
  std::chrono::milliseconds timeout{0};
  // The rest is for sessions on a server. The tasks that the graph may use, as device patterns:
  // {"/job:ps", "/job:worker/task:1"}. None: all. The server's own is always one of them.
  std::vector<std::string> device_filters = {};
  // State of its own on every task instead of what the tasks share; gone with the session.
  bool isolate_session_state = false;
  // Names of this session's own for tasks, whatever cluster they were started as. The server that
  // it is opened on must be one of them, once, and not under the name that it was started with:
  // InvalidArgument. Such a session has state of its own, unless it says otherwise.
  std::optional<ClusterSpec> cluster = std::nullopt;
  bool share_cluster_state = false;
  // What is shown to the server, and demanded of it.
  Credentials credentials = credentials_from_environment();
  // A server that is silent for longer is given up.
  std::chrono::milliseconds silence_limit{10'000};
};

struct RunOptions {
  std::chrono::milliseconds timeout{0};  // 0 = the session's
  bool trace = false;                    // fills RunMetadata
};

// What a traced run did: one entry per node that ran.
struct NodeTiming {
  std::string node;
  std::string op;
  std::string device;
  std::chrono::nanoseconds start;  // since the run began
  std::chrono::nanoseconds duration;
  int64_t output_bytes;
};
struct RunMetadata {
  std::vector<NodeTiming> nodes;
  // The run as Chrome trace JSON, which chrome://tracing and Perfetto open: one row per device.
  std::string to_chrome_trace() const;
};

// A signature that was looked up once: runs with the same feeds and fetches, given by position.
// Shares the session's life.
class Callable {
 public:
  std::vector<Tensor> operator()(const std::vector<Tensor>& feed_values) const;

 private:
  friend class Session;
  Callable(std::shared_ptr<internal::SessionImpl> session,
           std::shared_ptr<const internal::PreparedCall> call);
  std::shared_ptr<internal::SessionImpl> session_;
  std::shared_ptr<const internal::PreparedCall> call_;
};

// A run in pieces, see Session::partial_run_setup. A handle: copies are the same run.
class PartialRun {
 private:
  friend class Session;
  explicit PartialRun(std::shared_ptr<internal::PartialRunState> state);
  std::shared_ptr<internal::PartialRunState> state_;
};

// Runs a graph. Only what the fetches need runs; a signature (which tensors are fed and fetched) is
// compiled at its first run and kept while it is one of the 256 used last. State lives with the
// session's devices: variables keep their values from run to run.
//
// The graph may grow between runs. Thread-safe: any number of threads may run at the same time.
class Session {
 public:
  // Runs the graph that this thread is building, in this process. A target "grpc://host:port", or
  // "host:port" for short, asks the server there instead, which places the graph on the devices of
  // its whole cluster (cohort/server.h); any other target is NotFound.
  explicit Session(std::string_view target = "", const SessionOptions& options = {});
  explicit Session(const Graph& graph, std::string_view target = "",
                   const SessionOptions& options = {});
  // Ends as close() does.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The value of one tensor. Feeding a tensor of another graph, one that may not be fed, a wrong
  // dtype or shape, or one twice is InvalidArgument; so is a placeholder that is needed and not
  // fed.
  Tensor run(const Tensor& fetch, const Feeds& feeds = {}, const RunOptions& options = {},
             RunMetadata* metadata = nullptr);
  // Several, in the order asked for; the same may be asked for twice.
  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(std::initializer_list<Tensor> fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  // By name.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& fetches,
                                    const Feeds& feeds = {}, const RunOptions& options = {},
                                    RunMetadata* metadata = nullptr);

  Callable make_callable(const std::vector<Tensor>& feeds, const std::vector<Tensor>& fetches);

  // A run whose feeds and fetches come in pieces: this says which there will be. Each piece gives
  // some of the feeds and gets those of the fetches that can be computed by then. No node runs
  // twice: what one piece computes, later ones use. What comes between pieces is kept by the
  // caller's process.
  //
  // A feed or fetch that was not declared, or comes a second time, and a fetch that needs what has
  // not been fed yet, are InvalidArgument and end nothing; other errors end the run.
  PartialRun partial_run_setup(const std::vector<Tensor>& fetches,
                               const std::vector<Tensor>& feeds = {});
  Tensor partial_run(const PartialRun& run, const Tensor& fetch, const Feeds& feeds = {});
  std::vector<Tensor> partial_run(const PartialRun& run, const std::vector<Tensor>& fetches,
                                  const Feeds& feeds = {});
  std::vector<Tensor> partial_run(const PartialRun& run, std::initializer_list<Tensor> fetches,
                                  const Feeds& feeds = {});

  std::vector<std::string> list_devices() const;

  // Refuses further runs, ends those under way with Cancelled, and waits for them. Later calls of
  // run() throw FailedPrecondition.
  void close();

 private:
  std::shared_ptr<internal::SessionImpl> impl_;
};

}  // namespace cohort
