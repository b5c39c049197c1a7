#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>

#include "base/file_descriptor.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/random_number.h"
#include "base/time_limit.h"
#include "base/timers.h"
#include "base/waiting.h"
#include "cluster/master.h"
#include "cluster/server_status.h"
#include "cohort/server.h"
#include "rpc/grpc_endpoint.h"
#include "runtime/thread_pool.h"
#include "topology/address.h"

namespace cohort {
namespace internal {
namespace {

// How long a server that got SIGTERM goes on for clients: less than the 5 s that `cohort run` gives
// its tasks.
constexpr std::chrono::seconds kLingerLimit{4};
constexpr std::chrono::milliseconds kLookForSessions{20};

// Signals are a fact about the process, so there is one of each.
Mutex signal_mutex;
int signal_users = 0;  // guarded by signal_mutex, as the next
bool is_installed = false;
std::atomic<int> signal_event = -1;                    // set before the handler is installed
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void note_signal(int) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signal_event, &one, sizeof one);
}

// While one lives, SIGTERM makes event() readable instead of ending the process at once, unless the
// program handles that signal itself.
class StopSignal {
 public:
  StopSignal() {
    const std::lock_guard lock(signal_mutex);
    // It stays open: the handler must not write to a file that has got its number.
    if (signal_event < 0) signal_event = make_event().release();
    if (signal_users++ > 0 || signal_event < 0) return;
    uint64_t earlier = 0;  // a signal that ended earlier waiting
    [[maybe_unused]] const ssize_t taken = ::read(signal_event, &earlier, sizeof earlier);
    struct sigaction before {};
    sigaction(SIGTERM, nullptr, &before);
    if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    is_installed = sigaction(SIGTERM, &action, nullptr) == 0;
  }

  ~StopSignal() {
    const std::lock_guard lock(signal_mutex);
    if (--signal_users > 0 || !is_installed) return;
    std::signal(SIGTERM, SIG_DFL);
    is_installed = false;
  }

  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // A file descriptor; it stays readable from the first signal on. -1 when there is none.
  int event() const { return signal_event; }
};

// The longest waits, as an Activity shows them.
std::vector<WaitNote> notes_of(std::vector<LongWait> waits) {
  constexpr size_t kMaxShown = 4;  // as a rule the rest waits for the same
  std::ranges::sort(waits, [](const LongWait& a, const LongWait& b) { return a.since < b.since; });
  waits.resize(std::min(waits.size(), kMaxShown));
  std::vector<WaitNote> notes;
  for (const LongWait& wait : waits)
    notes.emplace_back(wait.kind, wait.what, wait.whom, wait.since);
  return notes;
}

// The cluster with the address of one task replaced.
ClusterSpec with_address(const ServerDef& def, const std::string& address) {
  ClusterDef cluster = def.cluster.as_cluster_def();
  for (ClusterDef::Job& job : cluster.jobs) {
    for (ClusterDef::Task& task : job.tasks) {
      if (job.name == def.job_name && task.index == def.task_index) task.address = address;
    }
  }
  return ClusterSpec(cluster);
}

void check_protocol(const std::string& protocol) {
  if (protocol == "grpc") return;
  if (protocol == "grpc+verbs") {
    raise(
        Code::Unimplemented,
        "[Server] protocol 'grpc+verbs' needs an MPI/UCX engine (libopenmpi-dev) that carries what "
        "servers exchange, and there is none: here MPI carries collectives only (cohort/mpi.h); "
        "use 'grpc'");
  }
  raise(Code::InvalidArgument, "[Server] protocol '{}' is neither 'grpc' nor 'grpc+verbs'",
        protocol);
}

// The same for all tasks that were started with the same cluster.
uint64_t fingerprint(const ClusterSpec& cluster) {
  const uint64_t hash = hash_text(cluster.to_string());
  return hash == 0 ? 1 : hash;
}

// How this process takes part in a cluster as a task that listens. `details` is a text for those
// who ask for the status of the task; see EndpointOptions.
std::unique_ptr<Endpoint> make_task_endpoint(const ServerDef& def, const ServerOptions& options,
                                             Endpoint::Accept accept,
                                             std::function<std::string()> details) {
  return make_endpoint({.self = {.name = task_name(def.job_name, def.task_index),
                                 .incarnation = random_number(),
                                 .address = def.address()},
                        .cluster = options.joins_later ? 0 : fingerprint(def.cluster),
                        .credentials = options.credentials,
                        .spans_hosts = spans_hosts(def.cluster),
                        .details = std::move(details)},
                       std::move(accept));
}

// The same task, to call tasks of other clusters with. It does not listen.
std::unique_ptr<Endpoint> make_outbound_endpoint(const Peer& task, const Credentials& credentials) {
  return make_endpoint(
      {.self = {.name = task.name, .incarnation = task.incarnation}, .credentials = credentials});
}

ServerOptions checked(ServerOptions options) {
  TimeLimit& timeout = options.session.timeout;
  timeout = given_time_limit("Server", "session.timeout", timeout);
  return options;
}

}  // namespace

// The implementation of a Server: an endpoint that others connect to, a master and a worker.
class TaskServer {
 public:
  TaskServer(ServerDef def, ServerOptions options)
      : def_(std::move(def)), options_(checked(std::move(options))) {
    check_protocol(def_.protocol);
    (void)parse_address(def_.address());
    if (!stop_event_) raise(Code::ResourceExhausted, "[Server] no file descriptor is left");
    if (options_.start) start();
  }

  ~TaskServer() { stop(); }

  void start() {
    const std::lock_guard lock(mutex_);
    if (state_ == State::Started) return;
    if (state_ == State::Stopped) {
      raise(Code::FailedPrecondition, "[Server] the server was stopped; make a new one");
    }
    const std::string name = task_name(def_.job_name, def_.task_index);
    peers_ = std::make_shared<Peers>(
        def_.cluster, name,
        HeartbeatOptions{.credentials = options_.credentials, .limit = options_.silence_limit},
        Link::Events{.received = [this](const Link::Pointer& from,
                                        const Message& message) { receive(from, message); },
                     .ended = [this](const Link::Pointer& link,
                                     const Status& why) { link_ended(link, why); }},
        [this](const Link::Pointer& client) { return master_->pending_wait(client); });
    quotas_ = std::make_unique<PeerQuotas>(name, PeerQuotas::limit_from_environment());
    worker_ = std::make_unique<Worker>(peers_);
    master_ = std::make_unique<Master>(peers_, *worker_, options_.session);
    // Requests that come before this function ends wait for mutex_, see receive_request.
    endpoint_ = make_task_endpoint(
        def_, options_,
        [this](std::shared_ptr<Connection> connection) { peers_->accept(std::move(connection)); },
        [this] { return encode_server_status(status()); });
    def_.cluster = with_address(def_, endpoint_->self().address);
    peers_->start(endpoint_, [self = endpoint_->self(), credentials = options_.credentials] {
      return make_outbound_endpoint(self, credentials);
    });
    state_ = State::Started;
    note_waits();
  }

  void join() {
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::Stopped) return;
    }
    start();
    const StopSignal signal;
    pollfd events[] = {{.fd = stop_event_.get(), .events = POLLIN, .revents = 0},
                       {.fd = signal.event(), .events = POLLIN, .revents = 0}};
    while (poll(events, 2, -1) < 0 && errno == EINTR) {
    }
    if (events[1].revents != 0) linger();
    stop();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      const State before = std::exchange(state_, State::Stopped);
      if (before != State::Started) {
        request_stop();
        return;
      }
    }
    const Status why{.code = Code::Unavailable,
                     .message = "[Server] " + peers_->self() + " was stopped"};
    master_->stop(why);
    worker_->stop(why);
    peers_->stop();
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return open_requests_ == 0; });
    lock.unlock();
    request_stop();
  }

  // A signal often reaches all tasks at once. Clients that are asked to end save what the servers
  // have, so the servers stay until the sessions have ended.
  void linger() {
    pollfd stopped{.fd = stop_event_.get(), .events = POLLIN, .revents = 0};
    const auto is_over = [&] { return master_->status().empty() || poll(&stopped, 1, 0) > 0; };
    if (is_over()) return;
    log_info("[Server] SIGTERM came while clients have sessions; the server stays for at most {} s",
             kLingerLimit.count());
    (void)poll_until(std::chrono::steady_clock::now() + kLingerLimit, is_over,
                     PollPolicy::every(kLookForSessions));
  }

  std::string target() const { return "grpc://" + server_def().address(); }

  ServerDef server_def() const {
    const std::lock_guard lock(mutex_);
    return def_;
  }

  ServerStatus status() const {
    ServerStatus status;
    status.task = task_name(def_.job_name, def_.task_index);
    const std::lock_guard lock(mutex_);
    if (state_ != State::Started) return status;
    worker_->describe(status);
    status.sessions = master_->status();
    status.peers = peers_->status();
    return status;
  }

 private:
  enum class State { New, Started, Stopped };

  void receive(const Link::Pointer& from, const Message& message) {
    switch (kind_of(message)) {
      case MessageKind::RunStep:
        return run_step(from, message);
      case MessageKind::CancelStep:
        return master_->cancel(from, decode<CancelStep>(message));
      case MessageKind::ReleaseRun:
        return master_->release(from, decode<ReleaseRun>(message));
      case MessageKind::ReleasePlan:
        return worker_->release(from, decode<ReleasePlan>(message));
      case MessageKind::PlanDone:
        return plan_done(from, message);
      case MessageKind::RunPlan:
        return run_plan(from, message);
      case MessageKind::AbortPlan:
        return worker_->abort(from, decode<AbortPlan>(message));
      case MessageKind::StepTensors:
        return arrive(from, message, decode<StepTensors>(message));
      case MessageKind::Notice:
      case MessageKind::StepDone:
      case MessageKind::Answer:
        return;
      default:
        return receive_request(from, message);
    }
  }

  void run_step(const Link::Pointer& from, const Message& message) {
    auto run = decode<RunStep>(message);
    const Status status =
        capture_status([&] { run.charge = quotas_->charge(from->peer(), message); });
    if (status.ok()) return master_->run(from, std::move(run));
    from->post(encode(StepDone{.call = run.call, .status = status}, peers_->self()));
  }

  void run_plan(const Link::Pointer& from, const Message& message) {
    auto run = decode<RunPlan>(message);
    const Status status =
        capture_status([&] { run.charge = quotas_->charge(from->peer(), message); });
    if (status.ok()) return worker_->run(from, std::move(run));
    from->post(encode(PlanDone{.session = run.session, .step = run.step, .status = status},
                      peers_->self()));
  }

  // Tensors that came with that message.
  void arrive(const Link::Pointer& from, const Message& message, StepTensors tensors) {
    const Status status =
        capture_status([&] { tensors.charge = quotas_->charge(from->peer(), message); });
    if (status.ok()) {
      worker_->arrive(std::move(tensors));
    } else {
      worker_->refuse(tensors, status);
    }
  }

  void plan_done(const Link::Pointer& from, const Message& message) {
    auto outcome = decode<PlanDone>(message);
    if (!outcome.last_tensors.edges.empty()) {
      arrive(from, message, std::move(outcome.last_tensors));
    }
    master_->done(from, std::move(outcome));
  }

  // Serves the request on a thread of the pool, and answers.
  void receive_request(const Link::Pointer& from, const Message& message) {
    const uint64_t request = request_of(message);
    {
      const std::lock_guard lock(mutex_);
      ++open_requests_;
    }
    run_pool().submit([this, from, message, request] {
      Answer answer;
      const Status status = capture_status([&] {
        const PeerQuotas::Charge charge = quotas_->charge(from->peer(), message);
        answer = answer_to(from, message);
      });
      answer.request = request;
      answer.status = status;
      from->answer(answer);
      // After the answer, because a server that stops ends the connection.
      if (kind_of(message) == MessageKind::Shutdown && status.ok()) request_stop();
      const std::lock_guard lock(mutex_);
      --open_requests_;
      answered_.notify_all();
    });
  }

  Answer answer_to(const Link::Pointer& from, const Message& message) {
    switch (kind_of(message)) {
      case MessageKind::OpenSession:
        return master_->open(from, decode<OpenSession>(message));
      case MessageKind::ExtendSession:
        return master_->extend(from, decode<ExtendSession>(message));
      case MessageKind::PrepareRun:
        return master_->prepare(from, decode<PrepareRun>(message));
      case MessageKind::CloseSession:
        return master_->close(from, decode<CloseSession>(message).session);
      case MessageKind::ListDevices:
        return master_->list_devices(from, decode<ListDevices>(message).session);
      case MessageKind::ResetContainers:
        return master_->reset(decode<ResetContainers>(message).containers);
      case MessageKind::GetStatus:
        return {.texts = {encode_server_status(status())}};
      case MessageKind::GetDevices:
        return {.texts = worker_->devices()};
      case MessageKind::RegisterPlan:
        return worker_->register_plan(from, decode<RegisterPlan>(message));
      case MessageKind::CloseWorkerSession:
        worker_->close_session(from, decode<CloseWorkerSession>(message).session);
        return {};
      case MessageKind::ClearContainers:
        worker_->clear(decode<ClearContainers>(message));
        return {};
      case MessageKind::Shutdown:
        return {};  // receive_request stops the server after the answer
      default:
        raise(Code::Unimplemented, "[Server] the server does not know this kind of request");
    }
  }

  void link_ended(const Link::Pointer& link, const Status& why) {
    master_->lost(link, why);
    worker_->lost(link, why);
  }

  void request_stop() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_event_.get(), &one, sizeof one);
  }

  // Adds waits that take long to the process's Activity, and comes again after a while.
  void note_waits() {
    using std::chrono::steady_clock;
    const auto now = steady_clock::now();
    std::vector<LongWait> waits;
    worker_->add_waits(now - stall_limit(), waits);
    master_->add_waits(now - stall_limit(), waits);
    wait_notes_ = notes_of(std::move(waits));
    const steady_clock::duration pause =
        std::min<steady_clock::duration>(std::chrono::seconds(1), stall_limit() / 4);
    watch_.at(now + pause, [this] { note_waits(); });
  }

  ServerDef def_;  // guarded by mutex_ until started
  const ServerOptions options_;
  std::shared_ptr<Peers> peers_;
  std::unique_ptr<PeerQuotas> quotas_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Master> master_;
  std::shared_ptr<Endpoint> endpoint_;
  const FileDescriptor stop_event_ = make_event();  // readable once the server is to stop

  mutable Mutex mutex_;
  State state_ = State::New;  // guarded by mutex_, as all below
  size_t open_requests_ = 0;
  std::condition_variable_any answered_;

  std::vector<WaitNote> wait_notes_;  // written by the thread of the next one alone
  Timers watch_;
};

}  // namespace internal

Server::Server(const ClusterSpec& cluster, const ServerTask& task, const ServerOptions& options)
    : impl_(std::make_unique<internal::TaskServer>(make_server_def(cluster, task), options)) {}

Server::Server(const ServerDef& def, const ServerTask& task, const ServerOptions& options)
    : impl_(std::make_unique<internal::TaskServer>(make_server_def(def, task), options)) {}

Server::~Server() = default;

Server Server::create_local_server(const ServerOptions& options) {
  return Server(ClusterSpec{{"localhost", {"localhost:0"}}}, {}, options);
}

void Server::start() { impl_->start(); }
void Server::join() { impl_->join(); }
void Server::stop() { impl_->stop(); }
std::string Server::target() const { return impl_->target(); }
ServerDef Server::server_def() const { return impl_->server_def(); }
ServerStatus Server::status() const { return impl_->status(); }

}  // namespace cohort
