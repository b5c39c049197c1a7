#pragma once

#include <map>

#include "cohort/cluster.h"
#include "cohort/graph.h"
#include "cohort/internal/durations.h"

namespace cohort {

// Feed gives a tensor of the graph a value, which a run uses instead of computing the tensor.
struct Feed {
  Tensor tensor;
  Tensor value;
};
using Feeds = std::vector<Feed>;

// SessionOptions sets where and how a Session runs its graph.
struct SessionOptions {
  // Prints the devices to stderr ("Device mapping:", then one per line), and a line for each node
  // when the node is placed: "name: (Op): /job:.../device:CPU:0".
  bool log_device_placement = false;
  // Moves a node to another device of its task if its own does not exist or cannot run the op.
  bool allow_soft_placement = false;
  // Sends float32 values between devices as bfloat16: half the bytes, 8 bits of mantissa.
  bool enable_bfloat16_sendrecv = false;
  // The limit for each run, which then throws DeadlineExceeded. Empty: no limit; 0, as in
  // TensorFlow, is the same as empty.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The other options are for sessions on a server. The tasks that the graph may use, as device
  // patterns such as "/job:worker/task:1". Empty: all. The server's own task is always included.
  std::vector<std::string> device_filters = {};
  // Gives this session its own state on every task, which is deleted with the session, instead of
  // the state that sessions share.
  bool isolate_session_state = false;
  // Other names for the tasks, for this session only. The cluster must contain the server that the
  // session connects to, once, under another name than its own (InvalidArgument). Such a session
  // has its own state, unless share_cluster_state is true.
  std::optional<ClusterSpec> cluster = std::nullopt;
  bool share_cluster_state = false;
  // The certificates and token that the session shows to the server and requires from it.
  Credentials credentials = credentials_from_environment();
  // How long the server may be silent before its connection counts as lost.
  std::chrono::milliseconds silence_limit{10'000};
};

// RunOptions applies to one run.
struct RunOptions {
  // Empty: as in SessionOptions; 0, as in TensorFlow, is the same as empty.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  bool trace = false;  // fills RunMetadata
};

// NodeTiming says when and where a traced run executed one node.
struct NodeTiming {
  std::string node;
  std::string op;
  std::string device;
  std::chrono::nanoseconds start;  // since the start of the run
  std::chrono::nanoseconds duration;
  int64_t output_bytes;
};
// RunMetadata is the trace of one run: an entry for each node that the run executed.
struct RunMetadata {
  std::vector<NodeTiming> nodes;
  // Returns the run as JSON for chrome://tracing and Perfetto, with one row per device.
  std::string to_chrome_trace() const;
};

// Callable is a prepared call of a Session, which Session::make_callable() returns: it takes the
// values of the feeds in their order. A call throws FailedPrecondition after the Session is closed.
using Callable = std::function<std::vector<Tensor>(const std::vector<Tensor>& feed_values)>;

// PartialRun is a run in several pieces. See Session::partial_run_setup. Copies share one run.
class PartialRun {
 private:
  friend class Session;
  explicit PartialRun(std::shared_ptr<internal::PartialRunState> state);
  std::shared_ptr<internal::PartialRunState> state_;
};

// Session runs a graph.
//
//   auto building = graph.as_default();
//   Tensor a = placeholder(kFloat32, {2});
//   Tensor b = sum(a * 2.f);
//   Session session;
//   float result = session.run(b, {{a, Tensor({1.f, 2.f})}}).to<float>();  // 6
//
// A run executes only the nodes that its fetches need. The first run with some feeds and fetches
// compiles them; the session keeps the 256 combinations used last. Variables keep their values from
// run to run, because state belongs to the devices of the session. The graph may grow between runs.
// Thread-safe: several threads may run at the same time.
class Session {
 public:
  // Runs the graph that this thread builds, or the given one. An empty target runs it in this
  // process. The target "grpc://host:port", or "host:port", connects to a Server, which places the
  // graph on the devices of its whole cluster. Throws NotFound for any other target.
  explicit Session(std::string_view target = "", const SessionOptions& options = {});
  explicit Session(const Graph& graph, std::string_view target = "",
                   const SessionOptions& options = {});
  // Closes the session.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the value of one tensor. Throws InvalidArgument if a needed placeholder is not fed, or
  // if a feed is of another graph, must not be fed, is fed twice or has a wrong dtype or shape.
  Tensor run(const Tensor& fetch, const Feeds& feeds = {}, const RunOptions& options = {},
             RunMetadata* metadata = nullptr);
  // Returns several values, in the given order. A tensor may occur more than once.
  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  std::vector<Tensor> run(std::initializer_list<Tensor> fetches, const Feeds& feeds = {},
                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);
  // Returns values by name.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& fetches,
                                    const Feeds& feeds = {}, const RunOptions& options = {},
                                    RunMetadata* metadata = nullptr);

  // Prepares a call with these feeds and fetches.
  //
  //   Callable call = session.make_callable({x}, {loss});
  //   Tensor value = call({Tensor({1.f, 2.f})})[0];
  Callable make_callable(const std::vector<Tensor>& feeds, const std::vector<Tensor>& fetches);

  // Begins a run in pieces, and declares all its feeds and fetches. Each partial_run() provides
  // some of the feeds and returns some of the fetches, which must not need later feeds. No node
  // runs twice: a later piece uses what an earlier piece computed, which this process keeps.
  //
  // partial_run() throws InvalidArgument if a feed or fetch was not declared or occurs a second
  // time, or if a fetch needs a later feed; the run can continue then. Other errors end the run.
  PartialRun partial_run_setup(const std::vector<Tensor>& fetches,
                               const std::vector<Tensor>& feeds = {});
  Tensor partial_run(const PartialRun& run, const Tensor& fetch, const Feeds& feeds = {});
  std::vector<Tensor> partial_run(const PartialRun& run, const std::vector<Tensor>& fetches,
                                  const Feeds& feeds = {});
  std::vector<Tensor> partial_run(const PartialRun& run, std::initializer_list<Tensor> fetches,
                                  const Feeds& feeds = {});

  std::vector<std::string> list_devices() const;

  // Cancels current runs (Cancelled) and waits for their end. Later runs throw FailedPrecondition.
  void close();

 private:
  std::shared_ptr<internal::SessionImpl> impl_;
};

}  // namespace cohort
