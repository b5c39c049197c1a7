#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "membership/member.h"

namespace cohort::internal {

// What workers say to each other until their group is formed, and to workers that come later.
struct BootstrapMessage {
  enum class Kind : uint8_t {
    Formed,   // from the leader: the members of the group
    Problem,  // a status: the group cannot be formed
    Busy,     // a text: the sender is in a group already
    Waiting,  // a text: what the sender waits for
    Probe,    // a number
    Alive,    // the number of the probe that it answers
  };
  Kind kind = Kind::Problem;
  uint64_t number = 0;               // of the generation, or of the probe
  std::vector<Member> members = {};  // by rank
  Status status = {};
  std::string text = {};
  static void list_fields(auto& fields, auto& m) {
    fields(at_most(m.kind, Kind::Alive), m.number, m.members, m.status, m.text);
  }
};

// Decides with whom a worker forms a group. This is a state machine: events go in, actions come
// out, and it has no connections, threads or clocks of its own. Not thread-safe.
//
// Each worker opens a connection to worker 0, the leader, and the handshake of the connection says
// everything about the worker. When all workers are connected, the leader sends the list of members
// to each of them, and again to a member that connects once more because it has lost the list. The
// leader also connects to workers that are missing: they may wait for another leader. A worker that
// finds a problem tells every worker that it can reach, so that all fail with the same words.
//
// A process that is started again before the group is formed takes the place of its predecessor. If
// both are alive, two processes have one index, which is a problem.
class Bootstrap {
 public:
  using Time = std::chrono::milliseconds;  // since the machine was made
  using ConnectionId = uint64_t;           // chosen by the caller

  struct Options {
    WorkerList workers = {};
    Member self = {};  // without an address if it cannot listen
    Time timeout{60'000};
    std::string component = kMembership;  // what texts for the user begin with
  };
  struct Action {
    enum class Kind {
      Connect,  // to `worker`; answered by connected(), or by connect_failed() soon
      Send,     // `message`
      Close,    // the connection, after what was sent
      Warn,     // write `text` to the log
      Finish,   // is_formed(), or failure() says why not
    };
    Kind kind = Kind::Finish;
    int worker = 0;
    ConnectionId connection = 0;
    BootstrapMessage message = {};
    std::string text = {};
  };
  using Actions = std::vector<Action>;

  // How often a worker tries to connect, and how long one try may take.
  static constexpr Time kRetry{300};
  static constexpr Time kConnectTime{500};
  // How long a worker tries again that was told that the group has begun: the members may not have
  // noticed yet that they have lost its predecessor.
  static constexpr Time kBusyTime{5'000};
  // How long a worker with a problem tries to reach the others, to tell them.
  static constexpr Time kTellTime{1'000};
  // How long two processes with one index may take to answer a probe.
  static constexpr Time kProbeTime{2'000};

  explicit Bootstrap(Options options);

  // Events. Times never decrease.
  //
  // `worker` is the one that a Connect action named; none for a connection that the peer opened.
  Actions connected(Time now, ConnectionId connection, const Peer& peer,
                    std::optional<int> worker = {});
  Actions connect_failed(Time now, int worker, const Status& why);
  Actions received(Time now, ConnectionId connection, BootstrapMessage message);
  Actions lost(Time now, ConnectionId connection);
  // To be called at least every 100 ms until Finish.
  Actions time_passed(Time now);
  // This process cannot be a member.
  Actions fail(Time now, const Status& why) {
    now_ = now;
    note_problem(why, false);
    return take_actions();
  }
  // The group that was formed has lost a member, and workers that come wait for its successor.
  void group_lost() { is_lost_ = true; }

  bool is_formed() const { return stage_ == Stage::Formed; }
  const Status& failure() const { return failure_; }
  uint64_t generation() const { return generation_; }
  const std::vector<Member>& members() const { return members_; }  // by rank

  // The workers that this one waits for, and what is known of them.
  std::vector<int> missing() const;
  std::string describe_missing() const;

 private:
  enum class Stage { Gathering, Telling, Failed, Formed };
  using Kind = BootstrapMessage::Kind;
  // One process and the connections that it opened.
  struct Process {
    Member member = {};
    std::set<ConnectionId> connections = {};
    bool is_alive = false;  // it has answered the probe
  };
  struct Worker {
    std::optional<Process> process = {};
    // Another process of the same index that has come since.
    std::optional<Process> rival = {};
    Time rival_since{0};
    uint64_t probe = 0;  // the last one, which asks both
    bool is_dialing = false;
    std::optional<ConnectionId> dialed = {};  // the connection that this worker opened
    Time next_dial{0};
    bool knows_failure = false;
    std::string reason = {};
  };

  bool is_leader() const { return self_id() == 0; }
  int self_id() const { return options_.workers.self; }
  Worker& worker(uint64_t id) { return workers_[static_cast<size_t>(id)]; }
  const std::string& name_of(int id) const {
    return options_.workers.workers[static_cast<size_t>(id)].name;
  }

  void dial_succeeded(int id, ConnectionId connection, const Peer& peer);
  void accepted(ConnectionId connection, const Peer& peer);
  void arrived(ConnectionId connection, const Member& member);
  void answer_latecomer(ConnectionId connection, const Member& member);
  void take_formed(ConnectionId connection, BootstrapMessage message);
  void take_busy(ConnectionId connection, const std::string& text);
  void take_alive(ConnectionId connection, uint64_t probe);
  void settle_rival(Worker& at);
  void form_if_complete();
  void dial_missing();
  void tell_waiting();
  void give_up_if_late();
  // `by_other`: another worker found the problem, and tells all.
  void note_problem(const Status& why, bool by_other);
  void tell_all();
  void finish_telling();
  void tell(Worker& to, ConnectionId connection) {
    send(connection, {.kind = Kind::Problem, .status = failure_});
    to.knows_failure = true;
  }
  void dial(int id);

  void send(ConnectionId connection, BootstrapMessage message) {
    actions_.push_back(
        {.kind = Action::Kind::Send, .connection = connection, .message = std::move(message)});
  }
  void close(ConnectionId connection) {
    actions_.push_back({.kind = Action::Kind::Close, .connection = connection});
  }
  Actions take_actions() { return std::exchange(actions_, {}); }

  const Options options_;
  std::vector<Worker> workers_;
  std::map<ConnectionId, Member> accepted_;  // connections that others opened
  Stage stage_ = Stage::Gathering;
  bool is_lost_ = false;
  Status failure_;
  Time now_{0};
  Time tell_until_{0};
  Time next_waiting_{0};
  uint64_t generation_ = 0;
  std::vector<Member> members_;
  Actions actions_;
};

}  // namespace cohort::internal
