#include "membership/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace cohort::internal {
namespace {

// Whether a try to connect that failed so may succeed later.
bool may_pass(Code code) {
  return code == Code::Unavailable || code == Code::DeadlineExceeded || code == Code::Cancelled;
}

// Other programs may know the address of a worker, or have taken it.
bool is_worker(const Peer& peer) { return !peer.settings.empty(); }

bool is_same(const Peer& one, const Peer& other) { return one.incarnation == other.incarnation; }

// Texts of other processes, for messages and the log.
std::string printable(const std::string& text) { return excerpt(text, kMaxStatusText); }
Status printable(Status status) {
  status.message = printable(status.message);
  status.origin = printable(status.origin);
  if (status.cause) status.cause = std::make_shared<const Status>(printable(*status.cause));
  return status;
}

}  // namespace

Bootstrap::Bootstrap(Options options)
    : options_(std::move(options)), workers_(options_.workers.workers.size()) {}

// ---- Events

Bootstrap::Actions Bootstrap::connected(Time now, ConnectionId connection, const Peer& peer,
                                        std::optional<int> dialed) {
  now_ = now;
  if (dialed) {
    dial_succeeded(*dialed, connection, peer);
  } else {
    accepted(connection, peer);
  }
  form_if_complete();
  return take_actions();
}

Bootstrap::Actions Bootstrap::connect_failed(Time now, int id, const Status& why) {
  now_ = now;
  Worker& at = worker(static_cast<uint64_t>(id));
  at.is_dialing = false;
  at.next_dial = now + kRetry;
  if (stage_ != Stage::Gathering) return take_actions();
  at.reason = printable(why.message);
  if (!may_pass(why.code) && !at.process) note_problem(why, false);
  return take_actions();
}

Bootstrap::Actions Bootstrap::received(Time now, ConnectionId connection,
                                       BootstrapMessage message) {
  now_ = now;
  switch (message.kind) {
    case Kind::Problem:
      note_problem(printable(message.status), true);
      break;
    case Kind::Formed:
      take_formed(connection, std::move(message));
      break;
    case Kind::Busy:
      take_busy(connection, printable(message.text));
      break;
    case Kind::Waiting:
      for (Worker& at : workers_) {
        if (at.dialed == connection) at.reason = printable(message.text);
      }
      break;
    case Kind::Probe:
      send(connection, {.kind = Kind::Alive, .number = message.number});
      break;
    case Kind::Alive:
      take_alive(connection, message.number);
      break;
  }
  return take_actions();
}

Bootstrap::Actions Bootstrap::lost(Time now, ConnectionId connection) {
  now_ = now;
  accepted_.erase(connection);
  for (Worker& at : workers_) {
    if (at.dialed == connection) {
      at.dialed.reset();
      at.next_dial = now + kRetry;
    }
    if (at.process) at.process->connections.erase(connection);
    if (at.rival) at.rival->connections.erase(connection);
    settle_rival(at);
    if (at.process && at.process->connections.empty()) {
      at.process.reset();
      at.reason = "its connection has ended";
    }
  }
  form_if_complete();
  return take_actions();
}

Bootstrap::Actions Bootstrap::time_passed(Time now) {
  now_ = now;
  if (stage_ == Stage::Gathering) {
    for (Worker& at : workers_) settle_rival(at);
    form_if_complete();
  }
  if (stage_ == Stage::Gathering) give_up_if_late();
  if (stage_ == Stage::Gathering) {
    dial_missing();
    tell_waiting();
  }
  if (stage_ == Stage::Telling) finish_telling();
  return take_actions();
}

// ---- Connections

void Bootstrap::dial_succeeded(int id, ConnectionId connection, const Peer& peer) {
  Worker& at = worker(static_cast<uint64_t>(id));
  at.is_dialing = false;
  at.next_dial = now_ + kRetry;
  if (stage_ == Stage::Telling && is_worker(peer)) return tell(at, connection);
  if (stage_ != Stage::Gathering) return close(connection);
  if (peer.name != name_of(id)) {
    at.reason = fmt::format("{} is there instead", peer.name);
    return close(connection);
  }
  at.dialed = connection;
  at.reason = "it is there";
  // The accepting side compares, because a worker that is in a group already has another answer.
  // Only a worker of another build may not know how to compare, or how to say so.
  Member other{.peer = peer, .process = peer.address};
  Status found =
      capture_status([&] { other = member_of(peer, options_.self, options_.component); });
  other.id = static_cast<uint64_t>(id);
  if (peer.build != options_.self.peer.build)
    found = compare(options_.self, other, options_.component);
  if (found.code == Code::FailedPrecondition) note_problem(found, false);
}

void Bootstrap::accepted(ConnectionId connection, const Peer& peer) {
  if (!is_worker(peer)) return close(connection);
  Member member;
  Status found =
      capture_status([&] { member = member_of(peer, options_.self, options_.component); });
  if (found.code == Code::DataLoss) return close(connection);
  if (found.ok() && peer.address.empty()) return;  // it cannot listen, and connects to say so
  if (found.ok() && stage_ == Stage::Formed) return answer_latecomer(connection, member);
  // Workers of one cluster connect to others than the leader only to tell a problem. All workers
  // fail with the words of that problem.
  const bool only_tells = !is_leader() && member.id != 0 &&
                          peer.build == options_.self.peer.build &&
                          member.cluster == options_.self.cluster;
  if (found.ok() && !only_tells) found = compare(options_.self, member, options_.component);
  if (!found.ok()) {
    send(connection, {.kind = Kind::Problem, .status = found});
    if (member.id < workers_.size() && peer.name == name_of(static_cast<int>(member.id))) {
      worker(member.id).knows_failure = true;
    }
    return note_problem(found, false);
  }
  // The name is what a certificate proves.
  if (member.id >= workers_.size() || peer.name != name_of(static_cast<int>(member.id))) {
    return close(connection);
  }
  accepted_[connection] = member;
  if (stage_ != Stage::Gathering) return tell(worker(member.id), connection);
  arrived(connection, member);
}

void Bootstrap::arrived(ConnectionId connection, const Member& member) {
  Worker& at = worker(member.id);
  if (!is_leader()) {
    if (member.id == 0) at.next_dial = now_;  // the leader is there
    return;
  }
  if (!at.process || is_same(at.process->member.peer, member.peer)) {
    if (!at.process) at.process = Process{.member = member};
    at.process->connections.insert(connection);
    return;
  }
  if (!at.rival || !is_same(at.rival->member.peer, member.peer)) {
    if (at.rival) {
      for (const ConnectionId old : at.rival->connections) close(old);  // it connects again
    }
    at.rival = Process{.member = member};
    at.rival_since = now_;
    at.process->is_alive = false;
    ++at.probe;
    for (const ConnectionId old : at.process->connections) {
      send(old, {.kind = Kind::Probe, .number = at.probe});
    }
  }
  at.rival->connections.insert(connection);
  send(connection, {.kind = Kind::Probe, .number = at.probe});
}

void Bootstrap::answer_latecomer(ConnectionId connection, const Member& member) {
  const bool is_member = member.id < members_.size() &&
                         is_same(members_[static_cast<size_t>(member.id)].peer, member.peer);
  if (is_member) {
    if (is_leader()) {
      send(connection, {.kind = Kind::Formed, .number = generation_, .members = members_});
    }
    return;
  }
  if (is_lost_) {
    return send(connection,
                {.kind = Kind::Waiting, .text = "its group has lost a worker; it forms a new one"});
  }
  send(connection,
       {.kind = Kind::Busy,
        .text = fmt::format("{} ({}) trains already, with {} workers", options_.self.peer.name,
                            options_.self.process, members_.size())});
}

// ---- Messages

void Bootstrap::take_formed(ConnectionId connection, BootstrapMessage message) {
  const auto id = static_cast<size_t>(self_id());
  if (stage_ != Stage::Gathering || is_leader() || workers_[0].dialed != connection) return;
  if (message.members.size() != workers_.size() ||
      !is_same(message.members[id].peer, options_.self.peer) ||
      message.number <= options_.self.generation) {
    return;
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (message.members[i].peer.name != name_of(static_cast<int>(i))) return;
  }
  generation_ = message.number;
  members_ = std::move(message.members);
  stage_ = Stage::Formed;
  close(connection);
  actions_.push_back({.kind = Action::Kind::Finish});
}

void Bootstrap::take_busy(ConnectionId connection, const std::string& text) {
  const auto at = std::find_if(workers_.begin(), workers_.end(),
                               [&](const Worker& one) { return one.dialed == connection; });
  if (stage_ != Stage::Gathering || at == workers_.end()) return;
  at->reason = text;
  at->dialed.reset();
  at->next_dial = now_ + kRetry;
  close(connection);
  if (is_leader() || options_.self.resumes() || now_ <= kBusyTime) return;
  note_problem({.code = Code::AlreadyExists,
                .message = fmt::format("[{}] {} ({}) tries to join a group that has begun: {}",
                                       options_.component, options_.self.peer.name,
                                       options_.self.process, text)},
               false);
}

void Bootstrap::take_alive(ConnectionId connection, uint64_t probe) {
  if (stage_ != Stage::Gathering) return;
  for (Worker& at : workers_) {
    if (!at.rival || at.probe != probe) continue;
    if (at.process->connections.contains(connection)) at.process->is_alive = true;
    if (at.rival->connections.contains(connection)) at.rival->is_alive = true;
    if (!at.process->is_alive || !at.rival->is_alive) continue;
    return note_problem(compare(at.process->member, at.rival->member, options_.component), false);
  }
}

// ---- The workers that are there

// One of two processes with an index remains when the other one has ended or does not answer.
void Bootstrap::settle_rival(Worker& at) {
  if (!at.rival) return;
  const bool is_late = now_ >= at.rival_since + kProbeTime;
  const bool is_rival_gone = at.rival->connections.empty();
  const bool is_old_gone = at.process->connections.empty();
  if (!is_late && !is_rival_gone && !is_old_gone) return;
  const bool keeps_old = is_rival_gone || (!is_old_gone && at.process->is_alive);
  Process& leaves = keeps_old ? *at.rival : *at.process;
  for (const ConnectionId connection : leaves.connections) close(connection);
  if (!keeps_old) at.process = std::move(at.rival);
  at.rival.reset();
}

void Bootstrap::form_if_complete() {
  if (stage_ != Stage::Gathering || !is_leader()) return;
  std::vector<Member> all{options_.self};
  uint64_t last = options_.self.generation;
  for (size_t id = 1; id < workers_.size(); ++id) {
    if (!workers_[id].process || workers_[id].rival) return;
    all.push_back(workers_[id].process->member);
    last = std::max(last, all.back().generation);
  }
  for (Member& each : all) each.cluster = each.settings = {};  // long, and equal by now
  members_ = std::move(all);
  generation_ = last + 1;
  stage_ = Stage::Formed;
  for (Worker& at : workers_) {
    if (at.dialed) close(*std::exchange(at.dialed, {}));
    if (!at.process) continue;
    for (const ConnectionId connection : at.process->connections) {
      send(connection, {.kind = Kind::Formed, .number = generation_, .members = members_});
    }
  }
  actions_.push_back({.kind = Action::Kind::Finish});
}

std::vector<int> Bootstrap::missing() const {
  if (!is_leader()) return {0};
  std::vector<int> absent;
  for (size_t id = 1; id < workers_.size(); ++id) {
    if (!workers_[id].process || workers_[id].rival) absent.push_back(static_cast<int>(id));
  }
  return absent;
}

std::string Bootstrap::describe_missing() const {
  std::vector<std::string> texts;
  for (const int id : missing()) {
    const auto& [name, address] = options_.workers.workers[static_cast<size_t>(id)];
    const std::string& reason = workers_[static_cast<size_t>(id)].reason;
    texts.push_back(
        fmt::format("{} at {}{}", name, address, reason.empty() ? "" : " (" + reason + ")"));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void Bootstrap::dial_missing() {
  for (const int id : missing()) {
    const Worker& at = worker(static_cast<uint64_t>(id));
    if (!at.dialed && now_ >= at.next_dial) dial(id);
  }
}

void Bootstrap::dial(int id) {
  Worker& at = worker(static_cast<uint64_t>(id));
  if (at.is_dialing) return;
  at.is_dialing = true;
  actions_.push_back({.kind = Action::Kind::Connect, .worker = id});
}

void Bootstrap::tell_waiting() {
  if (!is_leader() || now_ < next_waiting_) return;
  next_waiting_ = now_ + kRetry;
  const std::string text = "it waits for " + describe_missing();
  for (const Worker& at : workers_) {
    if (!at.process) continue;
    for (const ConnectionId connection : at.process->connections) {
      send(connection, {.kind = Kind::Waiting, .text = text});
    }
  }
}

void Bootstrap::give_up_if_late() {
  // A leader that is there gives up first, and says which workers are missing.
  const bool may_hear = !is_leader() && workers_[0].dialed.has_value();
  if (now_ < options_.timeout + (may_hear ? kTellTime : Time(0))) return;
  note_problem(
      {.code = Code::DeadlineExceeded,
       .message = fmt::format("[{}] {}: {} did not come within {:.1f} s; start all workers of {}",
                              options_.component, options_.self.peer.name, describe_missing(),
                              static_cast<double>(now_.count()) / 1000, options_.workers.cluster)},
      false);
}

// ---- Problems

void Bootstrap::note_problem(const Status& why, bool by_other) {
  if (stage_ == Stage::Formed) {
    actions_.push_back({.kind = Action::Kind::Warn,
                        .text = fmt::format("[{}] a process could not join this group: {}",
                                            options_.component, why.to_string())});
  }
  if (stage_ != Stage::Gathering) return;
  failure_ = why;
  stage_ = Stage::Telling;
  tell_until_ = now_ + kTellTime;
  // The worker that found the problem tells all, and so does the leader.
  if (by_other && !is_leader()) tell_until_ = now_;
  if (tell_until_ > now_) tell_all();
  finish_telling();
}

void Bootstrap::tell_all() {
  for (const auto& [connection, member] : accepted_) {
    tell(worker(member.id), connection);
  }
  const bool can_listen = !options_.self.peer.address.empty();
  for (int id = 0; id < options_.workers.size(); ++id) {
    Worker& at = worker(static_cast<uint64_t>(id));
    // If this process cannot listen, another process may do so at its address.
    if (id == self_id() && can_listen) at.knows_failure = true;
    if (at.dialed) tell(at, *at.dialed);
    if (!at.knows_failure) dial(id);
  }
}

void Bootstrap::finish_telling() {
  const bool all_told = std::all_of(workers_.begin(), workers_.end(),
                                    [](const Worker& at) { return at.knows_failure; });
  if (now_ < tell_until_ && !all_told) {
    for (int id = 0; id < options_.workers.size(); ++id) {
      Worker& at = worker(static_cast<uint64_t>(id));
      if (!at.knows_failure && now_ >= at.next_dial) dial(id);
    }
    return;
  }
  stage_ = Stage::Failed;
  actions_.push_back({.kind = Action::Kind::Finish});
}

}  // namespace cohort::internal
