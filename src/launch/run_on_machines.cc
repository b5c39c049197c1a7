#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <utility>

#include "base/raise.h"
#include "launch/local_network.h"
#include "launch/local_tasks.h"
#include "launch/run.h"
#include "launch/run_directory.h"
#include "launch/task_host.h"
#include "rpc/grpc_endpoint.h"
#include "transport/connection.h"

namespace cohort::cli {
namespace {

using internal::HostSlots;
using Clock = std::chrono::steady_clock;
constexpr auto kWaitTick = std::chrono::milliseconds(200);
constexpr auto kReminder = std::chrono::seconds(3);

// A machine that joined the run of this launcher.
class RemoteMachine : public TaskHost {
 public:
  // The messages of the machine come through `calls`, which outlives this object.
  RemoteMachine(std::shared_ptr<internal::Connection> connection, PostedCalls& calls,
                TaskEvents events)
      : connection_(std::move(connection)), events_(std::move(events)) {
    const std::weak_ptr<bool> alive = alive_;
    connection_->start({.received =
                            [this, alive, &calls](const internal::Message& message) {
                              calls.post([this, alive, message] {
                                if (!alive.expired()) receive(message);
                              });
                            },
                        .ended =
                            [this, alive, &calls](const Status& why) {
                              calls.post([this, alive, why] {
                                if (!alive.expired()) lose(why);
                              });
                            }});
  }

  ~RemoteMachine() override {
    connection_->close({.code = Code::Cancelled, .message = "the run is over"});
  }

  const MachineOffer& offer() const { return offer_; }
  const std::vector<int>& ports() const { return ports_; }
  const Status& lost() const { return lost_; }  // why the machine is lost, or OK

  void hold_ports(int count) { send(encode(MachineHold{count})); }
  void start(const TaskStart& start) override {
    if (!lost_.ok()) {
      return events_.ended(start.task, {.not_started = "the machine was lost: " + lost_.message});
    }
    running_[start.task] = {.since = std::chrono::steady_clock::now()};
    send(encode(MachineStart{start}));
  }

  void signal(size_t task, int signal) override { send(encode(MachineSignal{task, signal})); }
  void ask_place(size_t task) override { send(encode(MachineWhere{task})); }
  std::chrono::nanoseconds clock_ahead() const override { return clock_ahead_; }
  void say_goodbye() { send(encode(MachineGoodbye{})); }

 private:
  void receive(const internal::Message& message) {
    const Status status = capture_status([&] {
      switch (kind_of(message)) {
        case MachineMessage::Offer:
          offer_ = decode<MachineOffer>(message);
          return ask_clock();
        case MachineMessage::Held:
          ports_ = decode<MachineHeld>(message).ports;
          return;
        case MachineMessage::Line: {
          const auto line = decode<MachineLine>(message);
          note_line(line);
          return events_.line(line.task, line.stream, line.text);
        }
        case MachineMessage::Ended: {
          const auto ended = decode<MachineEnding>(message);
          if (running_.erase(ended.task) > 0) events_.ended(ended.task, ended.value);
          return;
        }
        case MachineMessage::Clock:
          return take_clock(decode<MachineClock>(message).time);
        case MachineMessage::Waits:
          return pass_on<MachineWaits>(message, events_.waits);
        case MachineMessage::Timeline:
          return pass_on<MachineTimeline>(message, events_.timeline);
        case MachineMessage::Progress:
          return pass_on<MachineProgress>(message, events_.progress);
        case MachineMessage::Place:
          return pass_on<MachinePlace>(message, events_.place);
        case MachineMessage::Interrupted: {
          const int signal = decode<MachineInterrupted>(message).signal;
          if (!running_.empty()) events_.interrupted(offer_.address, signal);
          return;
        }
        default:
          return;
      }
    });
    if (!status.ok()) lose(status);
  }

  // Calls `event` unless the task has ended.
  template <typename Message, typename Event>
  void pass_on(const internal::Message& message, const Event& event) const {
    const auto about = decode<Message>(message);
    if (running_.contains(about.task)) event(about.task, about.value);
  }

  void lose(const Status& why) {
    if (!lost_.ok()) return;
    lost_ =
        why.ok() ? Status{.code = Code::Unavailable, .message = "the machine left the run"} : why;
    const auto now = std::chrono::steady_clock::now();
    for (auto& [task, running] : std::exchange(running_, {})) {
      events_.ended(
          task, {.lost_machine = "the machine at " + offer_.address + " was lost: " + lost_.message,
                 .seconds = std::chrono::duration<double>(now - running.since).count(),
                 .last_lines = {running.last_lines.begin(), running.last_lines.end()}});
    }
  }

  // Keeps the lines that the machine would send with the end of the task, in case it is lost.
  void note_line(const MachineLine& line) {
    constexpr size_t kKeptLines = 10;
    const auto found = running_.find(line.task);
    if (found == running_.end()) return;
    std::deque<std::string>& lines = found->second.last_lines;
    lines.push_back(line.text);
    if (lines.size() > kKeptLines) lines.pop_front();
  }

  void ask_clock() {
    constexpr int kQuestions = 8;
    if (clock_questions_++ == kQuestions) return;
    clock_asked_at_ = std::chrono::steady_clock::now();
    send(encode(MachineClock{clock_asked_at_.time_since_epoch()}));
  }

  // The machine read its clock at some time between question and answer.
  void take_clock(std::chrono::nanoseconds theirs) {
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - clock_asked_at_;
    if (took < quickest_) {
      quickest_ = took;
      clock_ahead_ = theirs - (clock_asked_at_.time_since_epoch() + took / 2);
    }
    ask_clock();
  }

  // Does nothing if the machine is lost.
  void send(internal::Message message) {
    if (!lost_.ok()) return;
    const Status status = capture_status([&] { connection_->send(std::move(message)); });
    if (!status.ok()) lose(status);
  }

  const std::shared_ptr<internal::Connection> connection_;
  const TaskEvents events_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // watched by posted calls
  MachineOffer offer_;
  std::vector<int> ports_;
  struct Running {
    std::chrono::steady_clock::time_point since;
    std::deque<std::string> last_lines = {};
  };
  std::map<size_t, Running> running_;  // by task
  Status lost_;
  // The clock of the machine, from the quickest answer.
  int clock_questions_ = 0;
  std::chrono::steady_clock::time_point clock_asked_at_;
  std::chrono::nanoseconds quickest_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds clock_ahead_{};
};

std::string listening_host(const RunOptions& options) {
  if (!options.listen.empty()) return options.listen;
  if (options.hosts.empty()) return local_address();
  const std::string& first = options.hosts[0].host;  // host, or user@host
  return local_address_towards(first.substr(first.rfind('@') + 1));
}

// A run whose tasks are on machines that join it.
class MachinesRun {
 public:
  explicit MachinesRun(const RunOptions& options)
      : options_(options),
        core_(options, run_.poller, run_.directory),
        ssh_(run_.poller, run_.reaper, run_.directory, CrashReports::None,
             {.line = [](size_t, Stream, std::string_view line) { say(std::string(line)); },
              .ended =
                  [this](size_t host, const Ending& ending) {
                    if (ending.good() || !ssh_problem_.empty()) return;
                    ssh_problem_ = fmt::format("{} {}: {}", options_.ssh,
                                               options_.hosts.at(host).host, explain(ending));
                  }}) {
    run_.poller.watch(calls_.file(), [this] { calls_.deliver(); });
    const std::string host = listening_host(options);
    endpoint_ = internal::make_endpoint(
        {.self = {.name = "launcher", .incarnation = 1, .address = host + ":0"},
         .credentials = run_.authority.issue({.name = "launcher", .token = run_.authority.token()}),
         .spans_hosts = true},
        [this](std::shared_ptr<internal::Connection> connection) {
          calls_.post([this, connection = std::move(connection)] {
            machines_.push_back(
                std::make_unique<RemoteMachine>(connection, calls_, core_.events()));
          });
        });
  }

  int run() {
    if (options_.hosts.empty()) {
      say(fmt::format("waiting for {} machines. On each of them:\n  cohort join {} {}",
                      num_machines(), endpoint_->self().address, run_.authority.secret()));
    } else {
      start_ssh();
    }
    wait_for([this] { return joined().size() >= num_machines(); }, "waiting for machines");
    RunCore::Work work;
    work.layout = make_layout(work.machines);
    write_run_file(run_.directory, cluster_of(work.layout),
                   options_.insecure ? "insecure" : run_.secrets.for_client());
    work.environment = [this](const TaskId&) {
      return options_.insecure ? Environment{{"COHORT_CREDENTIALS", "insecure"}} : Environment{};
    };
    work.look = [] {};
    work.child_ended = [this] { ssh_.reap(); };
    const int code = core_.run(work, run_.signals);
    for (const auto& machine : machines_) machine->say_goodbye();
    return code;
  }

 private:
  size_t num_machines() const {
    return options_.hosts.empty() ? options_.machines : options_.hosts.size();
  }

  // How many tasks each machine gets: the slots of --hosts, or equal shares.
  std::vector<int> slots() const {
    std::vector<int> counts;
    for (const HostSlots& host : options_.hosts) counts.push_back(host.slots);
    if (!counts.empty()) return counts;
    const int tasks = static_cast<int>(tasks_of(options_.roles).size());
    for (int i = 0; i < options_.machines; ++i) {
      counts.push_back(tasks / options_.machines + (i < tasks % options_.machines ? 1 : 0));
    }
    return counts;
  }

  // The token goes through the standard input, because other users see command lines.
  void start_ssh() {
    for (size_t i = 0; i < options_.hosts.size(); ++i) {
      const std::string& host = options_.hosts[i].host;
      ssh_.start({.task = i,
                  .id = {"ssh", static_cast<int>(i)},
                  .command = {options_.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host,
                              "cohort", "join", "--name", host, endpoint_->self().address, "-"},
                  .input = run_.authority.secret() + "\n"});
    }
  }

  // Polls until done(), at most for join_limit. Says how many machines are there, and throws if
  // some stay away.
  void wait_for(const std::function<bool()>& done, const std::string& what) {
    const auto begin = Clock::now();
    auto reminder = begin + kReminder;
    while (!done()) {
      run_.poller.wait(kWaitTick);
      while (const int signal = run_.signals.next()) {
        if (signal != SIGCHLD) internal::raise(Code::Cancelled, "[Run] interrupted while {}", what);
        ssh_.reap();
      }
      std::erase_if(machines_, [](const auto& machine) { return !machine->lost().ok(); });
      if (!ssh_problem_.empty()) internal::raise(Code::Unavailable, "[Run] {}", ssh_problem_);
      if (Clock::now() > begin + options_.join_limit) {
        internal::raise(Code::DeadlineExceeded, "[Run] {}: {} of {} machines joined within {} s",
                        what, joined().size(), num_machines(), options_.join_limit.count() / 1000);
      }
      if (Clock::now() < reminder) continue;
      reminder += kReminder;
      say(fmt::format("{}: {} of {} machines have joined", what, joined().size(), num_machines()));
    }
  }

  // In the order of --hosts, or of joining.
  std::vector<RemoteMachine*> joined() const {
    std::vector<RemoteMachine*> found;
    for (const auto& machine : machines_) {
      if (!machine->offer().address.empty()) found.push_back(machine.get());
    }
    if (options_.hosts.empty()) return found;
    const auto place = [&](const RemoteMachine* machine) {
      return std::ranges::find_if(options_.hosts, [&](const HostSlots& host) {
        return host.host == machine->offer().name;
      });
    };
    std::erase_if(found, [&](const RemoteMachine* machine) {
      return place(machine) == options_.hosts.end();
    });
    std::ranges::stable_sort(
        found, [&](const RemoteMachine* a, const RemoteMachine* b) { return place(a) < place(b); });
    return found;
  }

  // Also fills in the machine of each task.
  RunLayout make_layout(std::vector<TaskHost*>& machines_of_tasks) {
    std::vector<RemoteMachine*> machines = joined();
    machines.resize(num_machines());  // another machine may have come meanwhile
    const std::vector<int> counts = slots();
    // One more on the first machine, for MASTER_PORT.
    for (size_t i = 0; i < machines.size(); ++i)
      machines[i]->hold_ports(counts[i] + (i == 0 ? 1 : 0));
    wait_for(
        [&] {
          return std::ranges::all_of(
              machines, [](const RemoteMachine* machine) { return !machine->ports().empty(); });
        },
        "choosing ports");
    RunLayout layout{.master_host = machines[0]->offer().address,
                     .master_port = machines[0]->ports().back()};
    const std::vector<TaskId> tasks = tasks_of(options_.roles);
    size_t next = 0;
    for (size_t i = 0; i < machines.size(); ++i) {
      for (int slot = 0; slot < counts[i] && next < tasks.size(); ++slot) {
        layout.places.push_back({tasks[next++], machines[i]->offer().address,
                                 machines[i]->ports().at(static_cast<size_t>(slot))});
        machines_of_tasks.push_back(machines[i]);
      }
    }
    if (next < tasks.size()) {
      internal::raise(Code::InvalidArgument,
                      "[Run] there are {} tasks and {} places on the machines", tasks.size(), next);
    }
    return layout;
  }

  const RunOptions& options_;
  RunResources run_;
  PostedCalls calls_;
  RunCore core_;
  std::vector<std::unique_ptr<RemoteMachine>> machines_;
  std::string ssh_problem_;  // why an ssh ended too early
  LocalTasks ssh_;           // one for each host
  std::unique_ptr<internal::Endpoint> endpoint_;
};

}  // namespace

int run_on_machines(const RunOptions& options) { return MachinesRun(options).run(); }

}  // namespace cohort::cli
