#include "cohort/session.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/text.h"
#include "base/time_limit.h"
#include "graph/placer.h"
#include "graph/run_request.h"
#include "runtime/graph_run.h"
#include "runtime/session_impl.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

std::vector<DeviceName> local_devices() {
  std::vector<DeviceName> names;
  for (const std::string& name : cohort::list_devices()) names.push_back(DeviceName::parse(name));
  return names;
}

// Fetched values are for the program, which may combine values of several GPUs.
std::vector<Tensor> on_host(std::vector<Tensor> fetched) {
  if (!has_gpus()) return fetched;
  for (Tensor& value : fetched) value = reachable_from(host_of(value_device()), value);
  return fetched;
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
                              const CallSetting& setting) override {
    RunHandle handle(*this);
    const auto& timeout = setting.options.timeout;
    const auto limit = request_limit(timeout ? timeout : options_.timeout);
    std::atomic<uint64_t> given = setting.number.value_or(0);
    return on_host(run_parts(static_cast<const CompiledRun&>(run), values,
                             {.cancellation = handle.cancellation,
                              .numbered_runs = setting.number ? given : numbered_runs_,
                              .limit = limit,
                              .metadata = setting.metadata}));
  }

  // mutex_ is held.
  void check_open_locked() const {
    if (closed_) raise(Code::FailedPrecondition, "[Session] the session is closed; make a new one");
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
}  // namespace internal

namespace {

// "host:port" of a target that names a server, with or without the scheme.
std::optional<std::string_view> address_of(std::string_view target) {
  constexpr std::string_view kScheme = "grpc://";
  const std::string_view address =
      target.starts_with(kScheme) ? target.substr(kScheme.size()) : target;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 ||
      address.find_first_of("/ ") != std::string_view::npos) {
    return std::nullopt;
  }
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port < 0 || port > 65535) return std::nullopt;
  return address;
}

std::shared_ptr<internal::SessionImpl> open(const Graph& graph, std::string_view target,
                                            SessionOptions options) {
  options.timeout = internal::given_time_limit("Session", "timeout", options.timeout);
  const std::shared_ptr<internal::GraphImpl>& nodes = internal::GraphAccess::impl(graph);
  if (target.empty()) return std::make_shared<internal::LocalSession>(nodes, options);
  if (const auto address = address_of(target)) {
    return internal::open_remote_session(nodes, std::string(*address), options);
  }
  internal::raise(Code::NotFound,
                  "[Session] nothing serves target '{}'; use \"grpc://host:port\" for a server, "
                  "or \"\" to run in this process",
                  target);
}

}  // namespace

Session::Session(std::string_view target, const SessionOptions& options)
    : Session(get_default_graph(), target, options) {}

Session::Session(const Graph& graph, std::string_view target, const SessionOptions& options)
    : impl_(open(graph, target, options)) {}

Session::~Session() { impl_->close(); }

Tensor Session::run(const Tensor& fetch, const Feeds& feeds, const RunOptions& options,
                    RunMetadata* metadata) {
  return impl_->run({fetch}, feeds, options, metadata)[0];
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                 const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(fetches, feeds, options, metadata);
}

std::vector<Tensor> Session::run(std::initializer_list<Tensor> fetches, const Feeds& feeds,
                                 const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(std::vector<Tensor>(fetches), feeds, options, metadata);
}

std::map<std::string, Tensor> Session::run(const std::map<std::string, Tensor>& fetches,
                                           const Feeds& feeds, const RunOptions& options,
                                           RunMetadata* metadata) {
  return internal::run_by_name(fetches, [&](const std::vector<Tensor>& tensors) {
    return impl_->run(tensors, feeds, options, metadata);
  });
}

Callable Session::make_callable(const std::vector<Tensor>& feeds,
                                const std::vector<Tensor>& fetches) {
  return [session = impl_,
          call = impl_->make_callable(feeds, fetches)](const std::vector<Tensor>& feed_values) {
    return session->run_callable(*call, feed_values);
  };
}

PartialRun::PartialRun(std::shared_ptr<internal::PartialRunState> state)
    : state_(std::move(state)) {}

PartialRun Session::partial_run_setup(const std::vector<Tensor>& fetches,
                                      const std::vector<Tensor>& feeds) {
  return PartialRun(impl_->partial_run_setup(fetches, feeds));
}

Tensor Session::partial_run(const PartialRun& run, const Tensor& fetch, const Feeds& feeds) {
  return impl_->partial_run(*run.state_, {fetch}, feeds)[0];
}

std::vector<Tensor> Session::partial_run(const PartialRun& run, const std::vector<Tensor>& fetches,
                                         const Feeds& feeds) {
  return impl_->partial_run(*run.state_, fetches, feeds);
}

std::vector<Tensor> Session::partial_run(const PartialRun& run,
                                         std::initializer_list<Tensor> fetches,
                                         const Feeds& feeds) {
  return impl_->partial_run(*run.state_, std::vector<Tensor>(fetches), feeds);
}

std::vector<std::string> Session::list_devices() const { return impl_->list_devices(); }
void Session::close() { impl_->close(); }

std::string RunMetadata::to_chrome_trace() const {
  std::map<std::string, int> rows;
  std::string events;
  for (const NodeTiming& timing : nodes) {
    const int row = rows.emplace(timing.device, static_cast<int>(rows.size())).first->second;
    events += fmt::format(
        "{}{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":0,"
        "\"tid\":{},\"args\":{{\"output_bytes\":{}}}}}",
        events.empty() ? "" : ",\n", internal::escape_quotes(timing.node), timing.op,
        static_cast<double>(timing.start.count()) / 1e3,
        static_cast<double>(timing.duration.count()) / 1e3, row, timing.output_bytes);
  }
  for (const auto& [device, row] : rows) {
    events += fmt::format(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":{},\"args\":{{\"name\":\"{}"
        "\"}}}}",
        row, device);
  }
  return "{\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace cohort
