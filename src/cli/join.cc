#include "cli/join.h"

#include <csignal>
#include <filesystem>
#include <optional>

#include "base/raise.h"
#include "cli/held_port.h"
#include "cli/local_tasks.h"
#include "cli/mailbox.h"
#include "cli/node_messages.h"
#include "cli/route.h"
#include "cli/run_core.h"
#include "cli/run_folder.h"
#include "cli/run_plan.h"
#include "cli/run_secrets.h"
#include "cli/signals.h"
#include "rpc/endpoint.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

using internal::raise;
constexpr auto kConnectLimit = std::chrono::seconds(10);
constexpr auto kJoinTick = std::chrono::milliseconds(1000);
constexpr char kEverywhere[] = "0.0.0.0";

TaskId id_of(const std::string& label) {
  const size_t colon = label.rfind(':');
  if (colon == std::string::npos) raise(Code::DataLoss, "[Join] '{}' is no task", label);
  return {label.substr(0, colon), std::stoi(label.substr(colon + 1))};
}

// This machine in the run of a launcher elsewhere.
class JoinedRun {
 public:
  explicit JoinedRun(const JoinOptions& options);
  int run();

 private:
  // Events that report everything about the tasks to the launcher.
  TaskEvents events_told();
  void connect(const std::string& launcher);
  std::shared_ptr<internal::Connection> connected(const std::string& launcher);
  void receive(const internal::Message& message);
  // Drops the message if the connection has ended; its `ended` event reports the end.
  void tell(internal::Message message);
  void hold_ports(int count);
  void start(TaskStart start);
  void on_signal();

  const std::string folder_ = make_run_folder();
  Signals signals_{SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  const Reaper reaper_{folder_, folder_ + "/secrets"};
  const internal::RunAuthority authority_;
  const RunSecrets secrets_{authority_, folder_ + "/secrets"};
  std::vector<HeldPort> ports_;
  Mailbox mailbox_;
  Poller poller_;
  std::unique_ptr<internal::Party> party_;
  std::shared_ptr<internal::Connection> connection_;
  LocalTasks tasks_;
  bool over_ = false;
  int interrupted_by_ = 0;  // a signal
  Status problem_;
};

JoinedRun::JoinedRun(const JoinOptions& options)
    : authority_(options.token),
      tasks_(poller_, reaper_,
             {.folder = folder_, .preload = companion_file("libcohort_crash_report.so")},
             events_told()) {
  connect(options.launcher);
  const std::string host = internal::parse_address(options.launcher).host;
  connection_->send(encode(NodeOffer{
      options.name, options.address.empty() ? own_address_towards(host) : options.address}));
  poller_.watch(mailbox_.file(), [this] { mailbox_.deliver(); });
  poller_.watch(signals_.file(), [this] { on_signal(); });
}

TaskEvents JoinedRun::events_told() {
  return {.line =
              [this](size_t task, Stream stream, std::string_view line) {
                tell(encode(NodeLine{task, stream, std::string(line)}));
              },
          .ended =
              [this](size_t task, const Ending& ending) {
                tell(encode(NodeEnding{task, ending}));
              },
          .waits =
              [this](size_t task, const LongWaits& waits) {
                tell(encode(NodeWaits{task, waits}));
              },
          .place =
              [this](size_t task, const TaskPlace& place) {
                tell(encode(NodePlace{task, place}));
              },
          .progress =
              [this](size_t task, const internal::ProgressNote& note) {
                tell(encode(NodeProgress{task, note}));
              },
          .timeline =
              [this](size_t task, std::string_view lines) {
                tell(encode(NodeTimeline{task, std::string(lines)}));
              }};
}

void JoinedRun::connect(const std::string& launcher) {
  party_ = internal::make_endpoint(
      {.self = {.name = "machine", .incarnation = 1},
       .credentials = authority_.issue({.name = "machine", .token = authority_.token()})});
  connection_ = connected(launcher);
  connection_->start({.received =
                          [this](const internal::Message& message) {
                            mailbox_.post([this, message] { receive(message); });
                          },
                      .ended =
                          [this](const Status& why) {
                            mailbox_.post([this, why] {
                              if (!over_) problem_ = why;
                              over_ = true;
                            });
                          }});
}

std::shared_ptr<internal::Connection> JoinedRun::connected(const std::string& launcher) {
  std::shared_ptr<internal::Connection> connection;
  const Status status = capture_status([&] {
    connection = party_->connect(launcher, std::chrono::steady_clock::now() + kConnectLimit);
  });
  if (status.ok()) return connection;
  const bool nobody = status.code == Code::Unavailable || status.code == Code::DeadlineExceeded;
  raise(status.code, "{}; {}", status.message,
        nobody ? "does the launcher still wait there, as it printed?"
               : "is the token that of this launcher, and of this run?");
}

void JoinedRun::tell(internal::Message message) {
  (void)capture_status([&] { connection_->send(std::move(message)); });
}

void JoinedRun::on_signal() {
  while (const int signal = signals_.next()) {
    if (signal == SIGCHLD) {
      tasks_.reap();
    } else {
      over_ = true;
      interrupted_by_ = signal;
    }
  }
}

void JoinedRun::hold_ports(int count) {
  NodeHeld held;
  for (int i = 0; i < count; ++i) held.ports.push_back(ports_.emplace_back(kEverywhere).number());
  connection_->send(encode(held));
}

void JoinedRun::start(TaskStart start) {
  // Certificates are made here, so that no private key is sent.
  start.environment.try_emplace("COHORT_CREDENTIALS", secrets_.for_task(id_of(start.label)));
  if (!std::filesystem::is_directory(start.folder)) start.folder.clear();
  tasks_.start(start);
}

void JoinedRun::receive(const internal::Message& message) {
  switch (kind_of(message)) {
    case NodeMessage::Hold:
      return hold_ports(decode<NodeHold>(message).ports);
    case NodeMessage::Start:
      return start(decode<NodeStart>(message).start);
    case NodeMessage::Signal: {
      const auto signal = decode<NodeSignal>(message);
      return tasks_.signal(signal.task, signal.signal);
    }
    case NodeMessage::Clock:
      return tell(encode(NodeClock{std::chrono::steady_clock::now().time_since_epoch()}));
    case NodeMessage::Where:
      return tasks_.ask_place(decode<NodeWhere>(message).task);
    case NodeMessage::Goodbye:
      over_ = true;
      return;
    default:
      return;
  }
}

int JoinedRun::run() {
  while (!over_) {
    poller_.wait(kJoinTick);
    tasks_.look();
  }
  if (interrupted_by_ != 0) {
    say("this machine leaves the run: its tasks are killed");
    return 128 + interrupted_by_;
  }
  if (!problem_.ok()) {
    raise(problem_.code, "[Join] the launcher was lost, the tasks here are killed: {}",
          problem_.message);
  }
  return 0;
}

}  // namespace

int join_run(const JoinOptions& options) {
  (void)internal::parse_address(options.launcher);
  return JoinedRun(options).run();
}

}  // namespace cohort::cli
