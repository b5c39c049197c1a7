// Random schedules of workers that form a group: messages and connections are delayed and
// reordered, connections break, processes are started late, killed and started again at any moment.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <random>

#include "membership/bootstrap.h"

namespace cohort::internal {
namespace {

using Time = Bootstrap::Time;
using Actions = Bootstrap::Actions;

struct Faults {
  bool loses_connections = false;
  bool restarts = false;
  Time latest_start{500};
};

// Workers, their processes and the connections between them.
class Model {
 public:
  using Change = std::function<void(Member&)>;  // of what a worker says about itself

  Model(uint64_t seed, int workers, Faults faults) : random_(seed), faults_(faults) {
    for (int id = 0; id < workers; ++id) {
      list_.workers.push_back({"task " + std::to_string(id), "address " + std::to_string(id)});
      starts_.push_back(Time(below(static_cast<uint64_t>(faults.latest_start.count()) + 1)));
    }
    processes_.resize(list_.workers.size());
    changes_.resize(list_.workers.size());
  }

  struct Process {
    Member self;
    std::unique_ptr<Bootstrap> machine;
    Time began{0};
    bool is_finished = false;
    Time loss_known{-1};  // when it notices that a member of its group is gone
  };

  void change(int id, Change how) { changes_[static_cast<size_t>(id)] = std::move(how); }
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  const std::vector<Status>& failures() const { return failures_; }

  void run_with_faults(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step();
      if (faults_.loses_connections && below(40) == 0) lose_connection();
      if (faults_.restarts && below(150) == 0) restart(below(processes_.size()));
    }
  }
  // Until the condition holds; false if it does not within ten minutes.
  bool run_until(const std::function<bool()>& done) {
    const Time limit = now_ + std::chrono::minutes(10);
    while (!done() && now_ < limit && !testing::Test::HasFailure()) step();
    return done();
  }
  bool all_agree() const {
    for (const auto& process : processes_) {
      if (!process || !process->machine->is_formed() || has_lost(*process)) return false;
    }
    return true;
  }

 private:
  struct Event {
    enum class Kind { Accepted, Connected, Message, Lost };
    Kind kind;
    BootstrapMessage message = {};
  };
  // One end of a connection: the events that its process has not seen yet.
  struct End {
    uint64_t incarnation = 0;
    std::deque<Event> events = {};
    bool is_lost = false;  // the last event is, or was, Lost
  };
  struct Wire {
    uint64_t id = 0;
    std::array<End, 2> ends = {};  // [0] dialed
    int worker = 0;                // that [0] dialed
  };
  struct Dial {
    uint64_t incarnation;
    int worker;
  };

  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

  Process* find(uint64_t incarnation) const {
    for (const auto& process : processes_) {
      if (process && process->self.peer.incarnation == incarnation) return process.get();
    }
    return nullptr;
  }

  void step() {
    now_ += Time(below(12));
    for (size_t id = 0; id < processes_.size(); ++id) {
      if (!processes_[id] && now_ >= starts_[id]) start(id, 0);
      if (processes_[id]) recover(id);
      if (processes_[id] && processes_[id]->is_finished && !processes_[id]->machine->is_formed()) {
        stop(id);
      }
    }
    for (size_t i = below(4); i > 0 && !wires_.empty(); --i) deliver();
    if (!dials_.empty() && below(3) == 0) connect();
    for (const auto& process : processes_) {
      if (process && !process->is_finished) {
        act(*process, process->machine->time_passed(now_ - process->began));
      }
    }
    remove_ended();
  }

  void start(size_t id, uint64_t generation) {
    auto process = std::make_unique<Process>();
    process->began = now_;
    process->self = {.peer = {.name = list_.workers[id].name,
                              .incarnation = ++incarnations_,
                              .address = list_.workers[id].address,
                              .build = "1"},
                     .id = id,
                     .workers = processes_.size(),
                     .process = "process " + std::to_string(incarnations_),
                     .generation = generation};
    if (changes_[id]) changes_[id](process->self);
    WorkerList list = list_;
    list.self = static_cast<int>(id);
    process->machine = std::make_unique<Bootstrap>(Bootstrap::Options{
        .workers = list, .self = process->self, .timeout = std::chrono::hours(1)});
    known_[incarnations_] = process->self.peer;
    known_[incarnations_].settings = encode_settings(process->self);
    processes_[id] = std::move(process);
  }

  // A member of a group that has lost another one joins the next group, soon.
  void recover(size_t id) {
    Process& process = *processes_[id];
    if (!process.machine->is_formed() || !has_lost(process)) return;
    if (process.loss_known < Time(0)) process.loss_known = now_ + Time(below(2000));
    if (now_ < process.loss_known) return;
    process.machine->group_lost();
    if (below(20) != 0) return;
    const uint64_t generation = process.machine->generation();
    end(id);
    start(id, generation);
  }
  bool has_lost(const Process& process) const {
    for (const Member& member : process.machine->members()) {
      if (find(member.peer.incarnation) == nullptr) return true;
    }
    return false;
  }

  void restart(size_t id) {
    if (!processes_[id]) return;
    end(id);
    starts_[id] = now_ + Time(below(1000));
  }
  void end(size_t id) {
    const uint64_t gone = processes_[id]->self.peer.incarnation;
    processes_[id].reset();
    for (auto& wire : wires_) {
      for (const int side : {0, 1}) {
        if (wire->ends[side].incarnation == gone) lose(wire->ends[1 - side]);
      }
    }
  }

  // What a process has sent before it ends by itself arrives.
  void stop(size_t id) {
    const uint64_t gone = processes_[id]->self.peer.incarnation;
    for (auto& wire : wires_) {
      for (const int side : {0, 1}) {
        if (wire->ends[side].incarnation == gone) add_loss(wire->ends[1 - side]);
      }
    }
    processes_[id].reset();
    starts_[id] = Time::max();
  }

  void connect() {
    const size_t chosen = below(dials_.size());
    const Dial dial = dials_[chosen];
    dials_.erase(dials_.begin() + static_cast<std::ptrdiff_t>(chosen));
    Process* const from = find(dial.incarnation);
    if (from == nullptr) return;
    const auto& to = processes_[static_cast<size_t>(dial.worker)];
    if (!to || (faults_.loses_connections && below(4) == 0)) {
      return act(*from, from->machine->connect_failed(now_ - from->began, dial.worker,
                                                      {Code::Unavailable, "not there"}));
    }
    auto wire = std::make_unique<Wire>();
    wire->id = ++wire_ids_;
    wire->worker = dial.worker;
    wire->ends[0] = {dial.incarnation, {{Event::Kind::Connected}}};
    wire->ends[1] = {to->self.peer.incarnation, {{Event::Kind::Accepted}}};
    wires_.push_back(std::move(wire));
  }

  void deliver() {
    Wire& wire = *wires_[below(wires_.size())];
    const size_t side = below(2);
    End& at = wire.ends[side];
    Process* const process = find(at.incarnation);
    if (process == nullptr || at.events.empty()) return;
    const Event event = std::move(at.events.front());
    at.events.pop_front();
    const Time time = now_ - process->began;
    const uint64_t id = wire.id;
    Bootstrap& machine = *process->machine;
    switch (event.kind) {
      case Event::Kind::Accepted:
        return act(*process, machine.connected(time, id, known_.at(wire.ends[0].incarnation)));
      case Event::Kind::Connected:
        return act(*process,
                   machine.connected(time, id, known_.at(wire.ends[1].incarnation), wire.worker));
      case Event::Kind::Message:
        return act(*process, machine.received(time, id, event.message));
      case Event::Kind::Lost:
        return act(*process, machine.lost(time, id));
    }
  }

  void lose_connection() {
    if (wires_.empty()) return;
    Wire& wire = *wires_[below(wires_.size())];
    for (End& end : wire.ends) lose(end);
  }
  // What is under way may be lost, but a process that has opened a connection sees it.
  void lose(End& end) {
    if (end.is_lost) return;
    for (size_t keep = 1 + below(end.events.size()); end.events.size() > keep;) {
      end.events.pop_back();
    }
    add_loss(end);
  }
  static void add_loss(End& end) {
    if (!end.is_lost) end.events.push_back({Event::Kind::Lost});
    end.is_lost = true;
  }

  void act(Process& process, const Actions& actions) {
    using Kind = Bootstrap::Action::Kind;
    for (const Bootstrap::Action& action : actions) {
      switch (action.kind) {
        case Kind::Connect:
          dials_.push_back({process.self.peer.incarnation, action.worker});
          break;
        case Kind::Send:
        case Kind::Close:
          send(process, action);
          break;
        case Kind::Warn:
          break;
        case Kind::Finish:
          finish(process);
      }
    }
  }
  void send(const Process& process, const Bootstrap::Action& action) {
    for (auto& wire : wires_) {
      if (wire->id != action.connection) continue;
      const size_t side = wire->ends[0].incarnation == process.self.peer.incarnation ? 0 : 1;
      End& own = wire->ends[side];
      End& other = wire->ends[1 - side];
      if (action.kind == Bootstrap::Action::Kind::Close) {
        if (!own.is_lost) own.events.clear();
        add_loss(own);
        add_loss(other);
      } else if (!other.is_lost) {
        other.events.push_back({Event::Kind::Message, action.message});
      }
    }
  }

  void finish(Process& process) {
    EXPECT_FALSE(process.is_finished);
    process.is_finished = true;
    if (!process.machine->is_formed()) {
      failures_.push_back(process.machine->failure());
      return;
    }
    const auto& members = process.machine->members();
    ASSERT_EQ(members.size(), processes_.size());
    EXPECT_GT(process.machine->generation(), process.self.generation);
    EXPECT_EQ(members[process.self.id].peer.incarnation, process.self.peer.incarnation);
    for (const Member& member : members) {
      EXPECT_EQ(member.id, static_cast<uint64_t>(&member - members.data()));
      expect_same_group(process, find(member.peer.incarnation));
    }
  }
  // Members of one group that live have the same list.
  static void expect_same_group(const Process& one, const Process* other) {
    if (other == nullptr || !other->machine->is_formed()) return;
    EXPECT_EQ(one.machine->generation(), other->machine->generation());
    for (size_t id = 0; id < one.machine->members().size(); ++id) {
      EXPECT_EQ(one.machine->members()[id].peer.incarnation,
                other->machine->members()[id].peer.incarnation);
    }
  }

  void remove_ended() {
    std::erase_if(wires_, [&](const auto& wire) {
      return std::all_of(wire->ends.begin(), wire->ends.end(), [&](const End& end) {
        return find(end.incarnation) == nullptr || (end.is_lost && end.events.empty());
      });
    });
  }

  std::mt19937_64 random_;
  const Faults faults_;
  WorkerList list_;
  std::vector<Change> changes_;
  std::vector<Time> starts_;
  std::vector<std::unique_ptr<Process>> processes_;  // by worker; null: not running
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Dial> dials_;
  std::map<uint64_t, Peer> known_;  // handshakes, by incarnation
  std::vector<Status> failures_;
  uint64_t incarnations_ = 0;
  uint64_t wire_ids_ = 0;
  Time now_{0};
};

constexpr uint64_t kSchedules = 2000;

TEST(BootstrapModel, EverySetOfWorkersThatFitFormsOneGroup) {
  for (uint64_t seed = 1; seed <= kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed, 2 + static_cast<int>(seed % 4),
                {.loses_connections = seed % 2 == 0,
                 .restarts = seed % 3 != 0,
                 .latest_start = Time(seed % 5 == 0 ? 20'000 : 500)});
    model.run_with_faults(1500);
    EXPECT_TRUE(model.run_until([&] { return model.all_agree(); }));
    for (const Status& failure : model.failures()) ADD_FAILURE() << failure.to_string();
  }
}

TEST(BootstrapModel, WorkersThatDoNotFitAllFailWithTheSameWords) {
  const std::vector<Model::Change> changes{
      [](Member& member) { member.peer.build = "2"; },
      [](Member& member) { member.settings = "others"; },
      [](Member& member) { member.replicas = 7; },
      [](Member& member) { member.cluster = "another"; },
      [](Member& member) { member.engine = "mpi"; },
  };
  for (uint64_t seed = 1; seed <= kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const int workers = 2 + static_cast<int>(seed % 4);
    const int odd = static_cast<int>(seed / 7) % workers;
    Model model(seed, workers, {});
    model.change(odd, changes[seed % changes.size()]);
    EXPECT_TRUE(
        model.run_until([&] { return model.failures().size() == static_cast<size_t>(workers); }));
    for (const Status& failure : model.failures()) {
      EXPECT_EQ(failure.code, Code::FailedPrecondition) << failure.to_string();
      EXPECT_NE(failure.message.find("task " + std::to_string(odd) + " "), std::string::npos)
          << failure.message;
      EXPECT_NE(failure.message.find("cannot train together"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace cohort::internal
