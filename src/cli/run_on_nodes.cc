#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/raise.h"
#include "cli/known_tasks.h"
#include "cli/local_tasks.h"
#include "cli/node.h"
#include "cli/route.h"
#include "cli/run.h"
#include "cli/run_core.h"
#include "cli/run_folder.h"
#include "cli/run_secrets.h"
#include "rpc/endpoint.h"

namespace cohort::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kWaitTick = std::chrono::milliseconds(200);
constexpr auto kReminder = std::chrono::seconds(3);

// A run whose tasks are on machines that join it.
class NodesRun {
 public:
  explicit NodesRun(const RunOptions& options);
  int run();

 private:
  size_t num_nodes() const {
    return options_.hosts.empty() ? options_.nodes : options_.hosts.size();
  }
  std::vector<int> slots() const;
  void accept(std::shared_ptr<internal::Connection> connection);
  void start_agents();
  void say_how_to_join() const;
  // Polls until `done`, at most for join_limit. Says who is missing, and throws when they stay
  // away.
  void wait_for(const std::function<bool()>& done, const std::string& what);
  std::vector<Node*> joined() const;  // in the order of the hosts, or of joining
  RunPlan make_plan(std::vector<TaskHost*>& machines);

  const RunOptions& options_;
  const std::string folder_ = make_run_folder();
  Signals signals_{SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  const Reaper reaper_{folder_, folder_ + "/secrets"};
  const internal::RunAuthority authority_;
  const RunSecrets secrets_{authority_, folder_ + "/secrets"};
  Mailbox mailbox_;
  Poller poller_;
  RunCore core_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::string agent_problem_;  // what ssh said when it ended too early
  LocalTasks agents_;          // ssh, one for each host
  std::unique_ptr<internal::Party> party_;
};

std::string listening_host(const RunOptions& options) {
  if (!options.listen.empty()) return options.listen;
  if (options.hosts.empty()) return own_address();
  const std::string& first = options.hosts[0].host;  // host, or user@host
  return own_address_towards(first.substr(first.rfind('@') + 1));
}

NodesRun::NodesRun(const RunOptions& options)
    : options_(options),
      core_(options, poller_, folder_),
      agents_(poller_, reaper_, {.folder = folder_},
              {.line = [](size_t, Stream, std::string_view line) { say(std::string(line)); },
               .ended =
                   [this](size_t host, const Ending& ending) {
                     if (ending.good() || !agent_problem_.empty()) return;
                     agent_problem_ = fmt::format("{} {}: {}", options_.ssh,
                                                  options_.hosts.at(host).host, explain(ending));
                   }}) {
  poller_.watch(mailbox_.file(), [this] { mailbox_.deliver(); });
  const std::string host = listening_host(options);
  party_ = internal::make_endpoint(
      {.self = {.name = "launcher", .incarnation = 1, .address = host + ":0"},
       .credentials = authority_.issue({.name = "launcher", .token = authority_.token()}),
       .spans_hosts = true},
      [this](std::shared_ptr<internal::Connection> connection) {
        mailbox_.post([this, connection = std::move(connection)] { accept(connection); });
      });
}

void NodesRun::accept(std::shared_ptr<internal::Connection> connection) {
  nodes_.push_back(std::make_unique<Node>(std::move(connection), mailbox_, core_.events(), [] {}));
}

void NodesRun::say_how_to_join() const {
  say(fmt::format("waiting for {} machines. On each of them:\n  cohort join {} {}", num_nodes(),
                  party_->self().address, authority_.secret()));
}

// The token goes by the standard input: others see command lines.
void NodesRun::start_agents() {
  for (size_t i = 0; i < options_.hosts.size(); ++i) {
    const std::string& host = options_.hosts[i].host;
    agents_.start({.task = i,
                   .label = "ssh-" + std::to_string(i),
                   .command = {options_.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host,
                               "cohort", "join", "--name", host, party_->self().address, "-"},
                   .input = authority_.secret() + "\n"});
  }
}

void NodesRun::wait_for(const std::function<bool()>& done, const std::string& what) {
  const auto begin = Clock::now();
  auto reminder = begin + kReminder;
  while (!done()) {
    poller_.wait(kWaitTick);
    while (const int signal = signals_.next()) {
      if (signal != SIGCHLD) internal::raise(Code::Cancelled, "[Run] interrupted while {}", what);
      agents_.reap();
    }
    std::erase_if(nodes_, [](const auto& node) { return !node->lost().ok(); });
    if (!agent_problem_.empty()) internal::raise(Code::Unavailable, "[Run] {}", agent_problem_);
    if (Clock::now() > begin + options_.join_limit) {
      internal::raise(Code::DeadlineExceeded, "[Run] {}: {} of {} machines came within {} s", what,
                      joined().size(), num_nodes(), options_.join_limit.count() / 1000);
    }
    if (Clock::now() < reminder) continue;
    reminder += kReminder;
    say(fmt::format("{}: {} of {} machines are here", what, joined().size(), num_nodes()));
  }
}

std::vector<Node*> NodesRun::joined() const {
  std::vector<Node*> found;
  for (const auto& node : nodes_) {
    if (!node->offer().address.empty()) found.push_back(node.get());
  }
  if (options_.hosts.empty()) return found;
  const auto place = [&](const Node* node) {
    return std::find_if(options_.hosts.begin(), options_.hosts.end(),
                        [&](const HostSlots& host) { return host.host == node->offer().name; });
  };
  std::erase_if(found, [&](const Node* node) { return place(node) == options_.hosts.end(); });
  std::stable_sort(found.begin(), found.end(),
                   [&](const Node* a, const Node* b) { return place(a) < place(b); });
  return found;
}

// How many tasks each machine gets: those of --hosts, or as evenly as can be.
std::vector<int> NodesRun::slots() const {
  std::vector<int> counts;
  for (const HostSlots& host : options_.hosts) counts.push_back(host.slots);
  if (!counts.empty()) return counts;
  const int tasks = static_cast<int>(tasks_of(options_.roles).size());
  for (int i = 0; i < options_.nodes; ++i) {
    counts.push_back(tasks / options_.nodes + (i < tasks % options_.nodes ? 1 : 0));
  }
  return counts;
}

RunPlan NodesRun::make_plan(std::vector<TaskHost*>& machines) {
  std::vector<Node*> nodes = joined();
  nodes.resize(num_nodes());  // one more may have come at the same time
  const std::vector<int> counts = slots();
  // One more on the first, for programs that meet by themselves.
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->hold_ports(counts[i] + (i == 0 ? 1 : 0));
  wait_for(
      [&] {
        return std::all_of(nodes.begin(), nodes.end(),
                           [](const Node* node) { return !node->ports().empty(); });
      },
      "choosing ports");
  RunPlan plan{.master_host = nodes[0]->offer().address, .master_port = nodes[0]->ports().back()};
  const std::vector<TaskId> tasks = tasks_of(options_.roles);
  size_t next = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (int slot = 0; slot < counts[i] && next < tasks.size(); ++slot) {
      plan.places.push_back({tasks[next++], nodes[i]->offer().address,
                             nodes[i]->ports().at(static_cast<size_t>(slot))});
      machines.push_back(nodes[i]);
    }
  }
  if (next < tasks.size()) {
    internal::raise(Code::InvalidArgument, "[Run] there are {} tasks and {} places on the machines",
                    tasks.size(), next);
  }
  return plan;
}

int NodesRun::run() {
  if (options_.hosts.empty()) {
    say_how_to_join();
  } else {
    start_agents();
  }
  wait_for([this] { return joined().size() >= num_nodes(); }, "waiting for machines");
  RunCore::Work work;
  work.plan = make_plan(work.machines);
  write_run_file(folder_, work.plan, options_.insecure ? "insecure" : secrets_.for_client());
  work.environment = [this](const TaskId&) {
    return options_.insecure ? Environment{{"COHORT_CREDENTIALS", "insecure"}} : Environment{};
  };
  work.each_second = [] {};
  work.child_ended = [this] { agents_.reap(); };
  const int code = core_.run(work, signals_);
  for (const auto& node : nodes_) node->say_goodbye();
  return code;
}

}  // namespace

int run_on_nodes(const RunOptions& options) { return NodesRun(options).run(); }

}  // namespace cohort::cli
