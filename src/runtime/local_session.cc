#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/raise.h"
#include "graph/placer.h"
#include "runtime/graph_run.h"
#include "runtime/session_impl.h"

namespace cohort::internal {
namespace {

std::vector<DeviceName> local_devices() {
  std::vector<DeviceName> names;
  for (const std::string& name : cohort::list_devices()) names.push_back(DeviceName::parse(name));
  return names;
}

// A session whose devices are this process's. No other session sees its state.
class LocalSession : public SessionImpl {
 public:
  LocalSession(std::shared_ptr<GraphImpl> graph, const SessionOptions& options)
      : SessionImpl(std::move(graph)), options_(options), devices_(local_devices()) {
    for (const DeviceName& device : devices_) resources_[device.to_string()];
    if (!options.log_device_placement) return;
    print_placement("Device mapping:");
    for (const DeviceName& device : devices_) print_placement(device.to_string());
  }

  std::vector<std::string> list_devices() const override {
    std::vector<std::string> names;
    for (const DeviceName& device : devices_) names.push_back(device.to_string());
    return names;
  }

  void close() override {
    std::unique_lock lock(mutex_);
    closed_ = true;
    const auto running = running_;
    lock.unlock();
    for (const auto& [id, cancellation] : running) {
      cancellation->cancel(
          {.code = Code::Cancelled, .message = "[Session] the session was closed"});
    }
    lock.lock();
    idle_.wait(lock, [&] { return running_.empty(); });
  }

 private:
  // A run that is under way: known to close(), and counted.
  struct RunHandle {
    explicit RunHandle(LocalSession& owner) : session(owner) {
      const std::lock_guard lock(session.mutex_);
      session.check_open_locked();
      id = session.next_run_++;
      session.running_[id] = cancellation;
    }
    ~RunHandle() {
      const std::lock_guard lock(session.mutex_);
      session.running_.erase(id);
      session.idle_.notify_all();
    }

    LocalSession& session;
    // Shared with close(), which may still call it when the run has ended.
    const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
    int id = 0;
  };

  void check_open() const override {
    const std::lock_guard lock(mutex_);
    check_open_locked();
  }

  std::shared_ptr<const PreparedRun> make_run(const RunRequest& request,
                                              std::chrono::milliseconds /*limit*/) override {
    const std::lock_guard lock(mutex_);
    check_open_locked();
    if (graph().size() == 0) raise(Code::FailedPrecondition, "[Session] the graph has no nodes");
    check_placeholders(graph(), request);
    const std::vector<std::string> lines = place_new_nodes(
        graph(), placed_,
        {.devices = devices_,
         .home = devices_.front(),
         .allow_soft_placement = options_.allow_soft_placement,
         .hint = "this session runs in its own process; devices of other tasks need a session with "
                 "a target, Session(\"grpc://host:port\")"},
        options_.log_device_placement);
    for (const std::string& line : lines) print_placement(line);
    RunRequest cut = request;
    cut.bfloat16_edges = options_.enable_bfloat16_sendrecv;
    std::shared_ptr<CompiledRun> run = compile_parts(graph(), placed_, cut);
    for (CompiledRun::Part& part : run->parts) part.table = &resources_.at(part.device->full_name);
    return run;
  }

  std::vector<Tensor> execute(const PreparedRun& run, const std::vector<Tensor>& values,
                              const RunOptions& options, RunMetadata* metadata) override {
    RunHandle handle(*this);
    const auto limit = options.timeout.count() > 0 ? options.timeout : options_.timeout;
    return run_parts(static_cast<const CompiledRun&>(run), values,
                     {.cancellation = handle.cancellation,
                      .numbered_runs = numbered_runs_,
                      .limit = limit,
                      .metadata = metadata});
  }

  // mutex_ is held.
  void check_open_locked() const {
    if (closed_) raise(Code::FailedPrecondition, "[Session] the session is closed");
  }

  const SessionOptions options_;
  const std::vector<DeviceName> devices_;
  std::map<std::string, ResourceTable> resources_;  // by device; fixed after construction

  mutable Mutex mutex_;
  std::vector<DeviceName> placed_;  // guarded by mutex_, as all below
  std::map<int, std::shared_ptr<Cancellation>> running_;
  int next_run_ = 0;
  bool closed_ = false;
  std::condition_variable_any idle_;
  std::atomic<uint64_t> numbered_runs_{0};
};

}  // namespace

std::shared_ptr<SessionImpl> open_local_session(std::shared_ptr<GraphImpl> graph,
                                                const SessionOptions& options) {
  return std::make_shared<LocalSession>(std::move(graph), options);
}

}  // namespace cohort::internal
