#include <csignal>
#include <filesystem>
#include <utility>

#include "base/raise.h"
#include "launch/local_network.h"
#include "launch/local_tasks.h"
#include "launch/run.h"
#include "launch/task_host.h"
#include "rpc/grpc_endpoint.h"
#include "topology/address.h"
#include "topology/resolver_inputs.h"

namespace cohort::cli {
namespace {

using internal::raise;
constexpr auto kConnectLimit = std::chrono::seconds(10);
constexpr auto kJoinTick = std::chrono::milliseconds(1000);
constexpr char kEverywhere[] = "0.0.0.0";

// This machine in the run of a launcher elsewhere.
class JoinedRun {
 public:
  explicit JoinedRun(const JoinOptions& options)
      : run_(options.token),
        tasks_(run_.poller, run_.reaper, run_.directory, CrashReports::Written,
               reporting_events()) {
    connect(options.launcher);
    const std::string host = internal::parse_address(options.launcher).host;
    connection_->send(encode(MachineOffer{
        options.name, options.address.empty() ? local_address_towards(host) : options.address}));
    run_.poller.watch(calls_.file(), [this] { calls_.deliver(); });
    run_.poller.watch(run_.signals.file(), [this] { on_signal(); });
  }

  int run() {
    while (!over_) {
      run_.poller.wait(kJoinTick);
      tasks_.look();
    }
    if (!problem_.ok()) {
      raise(problem_.code, "[Join] the launcher was lost, the tasks here are killed: {}",
            problem_.message);
    }
    if (interrupted_by_ == 0) return 0;
    say(tasks_.any_runs() ? "this machine leaves the run: its tasks are killed"
                          : "this machine leaves the run");
    return 128 + interrupted_by_;
  }

 private:
  template <typename Event>
  auto sender() {
    return [this](size_t task, const auto& value) {
      send(encode(Event{task, decltype(Event::value)(value)}));
    };
  }

  // Events that send everything about the tasks to the launcher.
  TaskEvents reporting_events() {
    return {.line =
                [this](size_t task, Stream stream, std::string_view line) {
                  send(encode(MachineLine{task, stream, std::string(line)}));
                },
            .ended = sender<MachineEnding>(),
            .waits = sender<MachineWaits>(),
            .place = sender<MachinePlace>(),
            .progress = sender<MachineProgress>(),
            .timeline = sender<MachineTimeline>()};
  }

  void connect(const std::string& launcher) {
    endpoint_ =
        internal::make_endpoint({.self = {.name = "machine", .incarnation = 1},
                                 .credentials = run_.authority.issue(
                                     {.name = "machine", .token = run_.authority.token()})});
    const Status status = capture_status([&] {
      connection_ = endpoint_->connect(launcher, std::chrono::steady_clock::now() + kConnectLimit);
    });
    if (!status.ok()) {
      const bool silent = status.code == Code::Unavailable || status.code == Code::DeadlineExceeded;
      raise(status.code, "{}; {}", status.message,
            silent ? "does the launcher still wait at this address?"
                   : "is it the token of this launcher and of this run?");
    }
    connection_->start({.received =
                            [this](const internal::Message& message) {
                              calls_.post([this, message] { receive(message); });
                            },
                        .ended =
                            [this](const Status& why) {
                              calls_.post([this, why] {
                                if (!over_) problem_ = why;
                                over_ = true;
                              });
                            }});
  }

  // Drops the message if the connection has ended; its `ended` event reports the end.
  void send(internal::Message message) {
    (void)capture_status([&] { connection_->send(std::move(message)); });
  }

  void on_signal() {
    while (const int signal = run_.signals.next()) {
      if (signal == SIGCHLD) {
        tasks_.reap();
      } else if (std::exchange(interrupted_by_, signal) == 0 && tasks_.any_runs()) {
        // The launcher knows which tasks must end first, so that a training is saved, and the
        // grace.
        say("asking the launcher to stop the run; a second signal kills the tasks of this machine");
        send(encode(MachineInterrupted{signal}));
      } else {
        over_ = true;
      }
    }
  }

  void hold_ports(int count) {
    MachineHeld held;
    for (int i = 0; i < count; ++i) held.ports.push_back(ports_.emplace_back(kEverywhere).number());
    connection_->send(encode(held));
  }

  // Describes the run to `cohort status` on this machine, which lacks the run if that fails.
  void describe_run(Environment of_task) const {
    (void)capture_status([&] {
      const bool insecure = of_task["COHORT_CREDENTIALS"] == "insecure";
      write_run_file(run_.directory, internal::parse_tf_config(of_task["TF_CONFIG"]).cluster,
                     insecure ? "insecure" : run_.secrets.for_client());
    });
  }

  void start(TaskStart start) {
    if (!tasks_.any_runs()) describe_run(start.environment);
    // Certificates are made here, so that no private key is sent.
    start.environment.try_emplace("COHORT_CREDENTIALS", run_.secrets.for_task(start.id));
    if (!std::filesystem::is_directory(start.directory)) start.directory.clear();
    tasks_.start(start);
  }

  void receive(const internal::Message& message) {
    switch (kind_of(message)) {
      case MachineMessage::Hold:
        return hold_ports(decode<MachineHold>(message).ports);
      case MachineMessage::Start:
        return start(decode<MachineStart>(message).start);
      case MachineMessage::Signal: {
        const auto signal = decode<MachineSignal>(message);
        return tasks_.signal(signal.task, signal.signal);
      }
      case MachineMessage::Clock:
        return send(encode(MachineClock{std::chrono::steady_clock::now().time_since_epoch()}));
      case MachineMessage::Where:
        return tasks_.ask_place(decode<MachineWhere>(message).task);
      case MachineMessage::Goodbye:
        over_ = true;
        return;
      default:
        return;
    }
  }

  RunResources run_;
  std::vector<HeldPort> ports_;
  PostedCalls calls_;
  std::unique_ptr<internal::Endpoint> endpoint_;
  std::shared_ptr<internal::Connection> connection_;
  LocalTasks tasks_;
  bool over_ = false;
  int interrupted_by_ = 0;  // a signal
  Status problem_;
};

}  // namespace

int join_run(const JoinOptions& options) {
  (void)internal::parse_address(options.launcher);
  return JoinedRun(options).run();
}

}  // namespace cohort::cli
