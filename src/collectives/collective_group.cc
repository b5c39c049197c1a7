#include "collectives/collective_group.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "base/waiting.h"
#include "collectives/shared_engine.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// How often a wait looks whether the group is closed, if no message wakes it.
constexpr std::chrono::milliseconds kLookUp{50};
// How long it may take to read what a member sent before its connection ended.
constexpr std::chrono::seconds kDrainTime{1};

// The members that the algorithms exchange most messages with: neighbours in the ring, and partners
// at the distances of powers of two. If a is a partner of b, b is one of a.
std::set<int> partners(int rank, int size) {
  std::set<int> result;
  for (int distance = 1; distance < size; distance *= 2) {
    result.insert((rank + distance) % size);
    result.insert((rank - distance + size) % size);
  }
  result.erase(rank);
  return result;
}

// Ranks by host, in the order of their first members.
std::vector<std::vector<int>> by_host(const CollectiveGroup& group) {
  std::vector<std::vector<int>> hosts;
  std::map<std::string, size_t> known;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::string& host = group.host_of(rank);
    const auto [found, is_new] = known.try_emplace(host, hosts.size());
    if (is_new || host.empty()) {
      hosts.push_back({rank});
    } else {
      hosts[found->second].push_back(rank);
    }
  }
  return hosts;
}

// Whether there are several hosts, and several members on one of them.
bool shares_some(const std::vector<std::vector<int>>& hosts) {
  return hosts.size() > 1 && std::any_of(hosts.begin(), hosts.end(),
                                         [](const auto& ranks) { return ranks.size() > 1; });
}

// Null if the members form a two-level engine, whose levels meet next.
std::unique_ptr<Engine> choose_engine(CollectiveGroup& group, const Call& call,
                                      const std::vector<std::vector<int>>& hosts) {
  const bool is_near = hosts.size() == 1;
  const bool is_alone = group.size() == 1;
  Exchange exchange(group, call);
  if (is_near && !is_alone) {
    const auto segment = share_segment(exchange, SharedBoard::bytes(group.size()));
    if (segment) return std::make_unique<SharedEngine>(group, segment);
  } else {
    dissemination_barrier(exchange);
  }
  if (shares_some(hosts)) return nullptr;
  const EngineChoice& choice = group.settings().engine;
  if (choice.make && !is_alone) return choice.make(group, call);
  return std::make_unique<Engine>(group, is_near ? Distance::SameHost : Distance::Network);
}

}  // namespace

CollectiveGroup::CollectiveGroup(std::shared_ptr<Links> links, uint64_t id,
                                 std::vector<int> members, const GroupSettings& settings,
                                 std::weak_ptr<CollectiveGroup> outer)
    : links_(std::move(links)),
      id_(id),
      members_(std::move(members)),
      rank_(rank_of(links_->self())),
      settings_(settings),
      outer_(std::move(outer)) {}

CollectiveGroup::~CollectiveGroup() { leave(); }

std::shared_ptr<CollectiveGroup> CollectiveGroup::open(std::shared_ptr<Links> links, uint64_t id,
                                                       std::vector<int> members,
                                                       const GroupSettings& settings,
                                                       std::weak_ptr<CollectiveGroup> outer) {
  std::shared_ptr<CollectiveGroup> group(
      new CollectiveGroup(std::move(links), id, std::move(members), settings, std::move(outer)));
  group->links_->attach(id, group);
  group->meet();
  return group;
}

void CollectiveGroup::meet() {
  Call call{.kind = CallKind::Meet,
            .shape = {size()},
            .detail = fmt::format("{} members", size()),
            .number = next_number(),
            .deadline = deadline_after(settings_.meeting_time)};
  const std::vector<std::vector<int>> hosts = by_host(*this);
  run(call, [&] {
    for (const int rank : partners(rank_, size())) {
      const Status status = capture_status([&] { links_->expect(member(rank), call.deadline); });
      if (!status.ok() && links_->has_lost(member(rank))) lost(member(rank), status);
      throw_if_error(status);
    }
    engine_ = choose_engine(*this, call, hosts);
  });
  if (!engine_) engine_ = make_two_level_engine(*this, hosts);
  met_engine_ = engine_.get();
  log_info("[Collective] {} of {} has met the others; they use {}", describe(rank_), size(),
           engine_->kind());
}

std::string CollectiveGroup::describe(int rank) const {
  if (const auto outer = outer_.lock()) {
    return outer->describe(outer->rank_of(member(rank)));
  }
  return fmt::format("rank {} ({})", rank, name_of(rank));
}

int CollectiveGroup::rank_of(int member) const {
  return static_cast<int>(std::ranges::find(members_, member) - members_.begin());
}

// Calls

void CollectiveGroup::run(Call& call, const std::function<void()>& body) {
  if (call.purpose.empty()) set_purpose(call);
  await_turn(call);
  const TimelineSpan span("collective", timeline_is_on() ? to_string(call) : "");
  const Status status = capture_status([&] { run_checked(call, body); });
  const bool is_cause = !status.ok() && !is_over(call.number);
  if (is_cause) {
    fail({.code = status.code,
          .message = fmt::format("[Collective] {} failed in call {}, {}", describe(rank_),
                                 call.number, to_string(call)),
          .origin = name_of(rank_),
          .cause = std::make_shared<Status>(status)});
  }
  log_.end();
  order_.done(call.number);
  if (status.ok()) return;
  // Others may wait for this member in a group of the engine's own.
  if (Engine* engine = met_engine_.load()) engine->group_failed(status);
  if (!is_cause) throw_if_over(call.number);
  throw_if_error(status);
}

// The call before this one may still wait for other members. It ends when the group is closed.
void CollectiveGroup::await_turn(const Call& call) {
  if (order_.wait_for_turn(call.number, call.deadline)) return;
  fail({.code = Code::DeadlineExceeded,
        .message = fmt::format(
            "[{}] call {}, {}: {} did not join the call in time, because {}; the group is closed",
            internal::name_of(call.kind), call.number, to_string(call), describe(rank_),
            log_.activity()),
        .origin = name_of(rank_)});
  order_.wait_for_turn(call.number);
}

void CollectiveGroup::run_checked(Call& call, const std::function<void()>& body) {
  check(log_.begin(call));
  throw_if_over(call.number);
  // This call takes the place of a call that was refused. The others, which have heard of the
  // refusal, give up unless they see this call in time.
  if (call.number == refused_) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != rank_) announce(call, rank);
    }
  }
  body();
}

void CollectiveGroup::start(std::function<void(uint64_t)> work) {
  // A number and the place in the queue go together. Otherwise the thread could wait for the turn
  // of a call that is queued after the one it runs.
  const std::lock_guard lock(starting_);
  thread_.push([number = next_number(), work = std::move(work)] { work(number); });
}

void CollectiveGroup::refuse(const std::string& why) {
  // A refused call takes no number, so that a corrected call can have it.
  refused_ = order_.peek();
  tell_refusal({.other = rank_, .number = refused_, .why = why});
}

bool CollectiveGroup::check(const std::optional<CallLog::Difference>& difference) {
  if (!difference) return true;
  const auto& [mine, other, theirs, refused] = *difference;
  if (!refused.empty()) {  // the cause, and not the call that the member went on with
    fail(status_of({.other = other, .number = mine.number, .why = refused}));
    return false;
  }
  const bool by_site_alone = fingerprint(mine) == fingerprint(theirs);
  fail({.code = Code::FailedPrecondition,
        .message = fmt::format(
            "[Collective] call {} differs: {} makes {}, {} makes {}; every member must make the "
            "same calls in the same order{}",
            mine.number, describe(rank_), to_string(mine), describe(other), to_string(theirs),
            by_site_alone ? "; make the call at one place in the program, or set "
                            "COHORT_CHECK_LOCKSTEP=0 for all tasks"
                          : ""),
        .origin = name_of(rank_)});
  return false;
}

// Messages

void CollectiveGroup::send(const Call& call, int to, uint64_t step, std::vector<Buffer> payloads) {
  Message sent = message(Kind::Step, step, call);
  sent.payloads = std::move(payloads);
  const Status status = capture_status([&] { links_->send(member(to), std::move(sent)); });
  if (status.ok()) return;
  // The member may have said why it ends the group. That says more than the lost connection.
  drain_messages(member(to), call.number);
  lost(member(to), status);
  throw_if_over(call.number);
  throw_if_error(status);
}

void CollectiveGroup::drain_messages(int member, uint64_t call) {
  if (!links_->is_connected(member)) return;
  (void)capture_status([&] {
    links_->deliver_until(
        member, [&] { return is_over(call); }, steady_clock::now() + kDrainTime);
  });
}

Message CollectiveGroup::receive(const Call& call, int from, uint64_t step) {
  const MailKey key{.from = from, .call = call.number, .step = step};
  if (auto mail = mailbox_.take(key)) return std::move(*mail);
  return await_mail(key, {.call = &call, .from = from, .deadline = call.deadline});
}

void CollectiveGroup::announce(const Call& call, int rank) {
  Message sent = message(Kind::Announce, call);
  // A member that is gone is noticed when this member waits for it.
  (void)capture_status([&] { links_->send(member(rank), std::move(sent)); });
}

void CollectiveGroup::differ(const Call& call, int rank) {
  announce(call, rank);
  // This member knows only the fingerprint of the other call. The other member announces its call,
  // too, and a member that has both ends the group with an error that names both.
  (void)poll_until(steady_clock::now() + std::chrono::seconds(2),
                   [&] { return is_over(call.number); });
  throw_if_over(call.number);
  raise(Code::FailedPrecondition, "[{}] call {} differs: {} makes {}, {} makes another one",
        internal::name_of(call.kind), call.number, describe(rank_), to_string(call),
        describe(rank));
}

void CollectiveGroup::throw_if_refused(const Call& call) {
  const auto refusal = log_.refusal(call.number, settings_.refusal_time);
  if (!refusal || refusal->number == refused_) return;
  fail(status_of(*refusal));
  throw_if_over(call.number);
}

Status CollectiveGroup::status_of(const CallLog::Refusal& refusal) const {
  const Call last = log_.last();
  const std::string mine =
      last.number == refusal.number
          ? fmt::format("; {} waits for it in {}", describe(rank_), to_string(last))
          : "";
  return {.code = Code::FailedPrecondition,
          .message = fmt::format("[Collective] {} failed instead of making call {}: {}{}",
                                 describe(refusal.other), refusal.number, refusal.why, mine),
          .origin = name_of(rank_)};
}

void CollectiveGroup::send_tagged(int to, uint32_t tag, const Tensor& value) {
  Message sent = message(Kind::Tagged, tag, value);
  throw_if_over(0);
  if (to == rank_) return received(member(to), std::move(sent));
  links_->send(member(to), std::move(sent));
}

Tensor CollectiveGroup::receive_tagged(int from, uint32_t tag, Deadline deadline) {
  const MailKey key{.kind = MailKey::Kind::Tagged, .from = from, .call = tag};
  const Message mail = await_mail(key, {.tag = tag, .from = from, .deadline = deadline});
  MessageReader reader(mail, "a tensor with a tag");
  for (int field = 0; field < 3; ++field) reader.number();  // group, kind, tag
  return decode_next<Tensor>(reader);
}

Message CollectiveGroup::await_mail(const MailKey& key, const Awaited& awaited) {
  const int other = member(key.from);
  const uint64_t call = awaited.call != nullptr ? awaited.call->number : 0;
  Wait wait = begin_wait();
  for (;;) {
    if (auto mail = mailbox_.take(key)) return std::move(*mail);
    throw_if_over(call);
    if (key.kind == MailKey::Kind::Tagged) throw_if_left(key.from);
    const auto look_again = look_at_clock(wait, awaited);
    const auto done = [&] { return mailbox_.has(key) || is_over(call); };
    const Deadline slice = std::min(look_again, steady_clock::now() + kLookUp);
    const Status ended = capture_status([&] { links_->deliver_until(other, done, slice); });
    if (ended.ok() || done()) continue;
    lost(other, ended);
    throw_if_over(call);
    throw_if_left(key.from);
  }
}

void CollectiveGroup::received(int from, Message message) {
  const int rank = rank_of(from);
  // The task is a member of the connections, and not of this group.
  if (rank == size()) return;
  const Status status = capture_status([&] { dispatch(rank, std::move(message)); });
  if (!status.ok()) fail(status);
}

void CollectiveGroup::dispatch(int from, Message message) {
  MessageReader reader(message, "a collective");
  reader.number();  // the group
  switch (static_cast<Kind>(reader.number(static_cast<uint64_t>(Kind::Refused)))) {
    case Kind::Step: {
      const uint64_t step = reader.number();
      const auto theirs = decode_next<Call>(reader);
      // Values of another call are not combined with those of this one.
      if (!check(log_.announced(from, theirs))) return;
      return mailbox_.put({.from = from, .call = theirs.number, .step = step}, std::move(message));
    }
    case Kind::Announce:
      check(log_.announced(from, decode_next<Call>(reader)));
      return;
    case Kind::Tagged: {
      const uint64_t tag = reader.number(UINT32_MAX);
      return mailbox_.put({.kind = MailKey::Kind::Tagged, .from = from, .call = tag},
                          std::move(message));
    }
    case Kind::Failed:
      return fail(decode_next<Status>(reader));
    case Kind::Left: {
      int who = 0;
      uint64_t calls = 0;
      reader(at_most(who, size() - 1), calls);
      return member_left(who, calls);
    }
    case Kind::Question:
      return answer_question(from, reader);
    case Kind::Answer:
      return pass_answer_on(reader);
    case Kind::Refused: {
      CallLog::Refusal refusal;
      reader(at_most(refusal.other, size() - 1), refusal.number, refusal.why);
      return log_.refused(std::move(refusal));
    }
  }
}

}  // namespace cohort::internal
