#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "collectives/collective_group.h"

// How a member that has waited for long finds out which members are missing, and reports them.

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long before the report the members are asked; in short waits they are asked later.
constexpr milliseconds kBefore{200};
// How late the answers may be before the report is made without them.
constexpr milliseconds kGrace{300};
constexpr milliseconds kLookForAnswers{5};

double seconds(steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

steady_clock::time_point CollectiveGroup::look_at_clock(Wait& wait, const Awaited& awaited) {
  if (const auto outer = outer_.lock()) {
    // A member that is awaited in one level may itself wait in the other level.
    const Call call = outer->log_.last();
    return outer->look_at_clock(wait, {.call = &call, .from = -1, .deadline = awaited.deadline});
  }
  if (awaited.call != nullptr) throw_if_refused(*awaited.call);
  const auto now = steady_clock::now();
  const auto due =
      std::min<steady_clock::time_point>(wait.began + wait.next_report, awaited.deadline);
  const auto ask_at = due - std::min<steady_clock::duration>(kBefore, (due - wait.began) / 2);
  if (now < ask_at) return ask_at;
  if (!wait.has_asked) ask_all();
  wait.has_asked = true;
  if (now < due) return due;
  const bool all_answered = answers().size() + 1 == members_.size();
  if (!all_answered && now < due + kGrace) return now + kLookForAnswers;
  if (now >= awaited.deadline) give_up(wait, awaited);
  report(wait, awaited);
  wait.next_report *= 2;
  wait.has_asked = false;
  return now;
}

// Answers to earlier questions do not count any more.
void CollectiveGroup::ask_all() {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    answers_.clear();
    number = ++asked_;
  }
  tell_all(message(Kind::Question, rank_, number));
}

void CollectiveGroup::answer_question(int from, MessageReader& reader) {
  int asker = 0;
  uint64_t question = 0;
  reader(at_most(asker, size() - 1), question);
  if (asker == rank_) return;
  {
    const std::lock_guard lock(mutex_);
    Question& last = questions_[asker];
    if (last.number >= question) return;  // it has come on another way
    last = {question, from};
  }
  tell_all(message(Kind::Question, asker, question), from);
  Message answer = message(Kind::Answer, asker, question, rank_, log_.begun(), log_.activity());
  (void)capture_status([&] { links_->send(member(from), std::move(answer)); });
}

void CollectiveGroup::pass_answer_on(MessageReader& reader) {
  int asker = 0;
  uint64_t question = 0;
  int who = 0;
  Standing standing;
  reader(at_most(asker, size() - 1), question, at_most(who, size() - 1), standing.begun,
         standing.activity);
  int to = 0;
  {
    const std::lock_guard lock(mutex_);
    if (asker == rank_) {
      if (question == asked_) answers_[who] = std::move(standing);
      return;
    }
    const auto found = questions_.find(asker);
    if (found == questions_.end() || found->second.number != question) return;  // a newer one
    to = found->second.from;
  }
  Message answer = message(Kind::Answer, asker, question, who, standing.begun, standing.activity);
  (void)capture_status([&] { links_->send(member(to), std::move(answer)); });
}

// The members that have not begun the call or do not answer; if there are none, the awaited member.
std::vector<CollectiveGroup::Missing> CollectiveGroup::find_missing(const Awaited& awaited) const {
  const std::map<int, Standing> all = answers();
  const auto activity = [&](int rank) {
    const auto found = all.find(rank);
    return found != all.end() ? found->second.activity : "it does not answer";
  };
  std::vector<Missing> missing;
  for (int rank = 0; awaited.call != nullptr && rank < size(); ++rank) {
    const auto found = all.find(rank);
    const bool has_come = found != all.end() && found->second.begun > awaited.call->number;
    if (rank != rank_ && !has_come) missing.push_back({rank, activity(rank)});
  }
  if (missing.empty() && awaited.from >= 0) {
    missing.push_back({awaited.from, activity(awaited.from)});
  }
  return missing;
}

std::string CollectiveGroup::text_of(const Awaited& awaited) const {
  if (awaited.call == nullptr) {
    return fmt::format("[Receive] tag {} from {}", awaited.tag, describe(awaited.from));
  }
  const Call& call = *awaited.call;
  return fmt::format("[{}] call {}, {}", internal::name_of(call.kind), call.number,
                     to_string(call));
}

void CollectiveGroup::report(Wait& wait, const Awaited& awaited) const {
  const std::string text = text_of(awaited);
  const double waited = seconds(steady_clock::now() - wait.began);
  const std::vector<Missing> missing = find_missing(awaited);
  std::vector<std::string> names;
  for (const Missing& one : missing) {
    names.push_back(name_of(one.rank));
    log_warning("{}: {} waits for {}, for {:.1f} s; {}", text, describe(rank_), describe(one.rank),
                waited, one.activity);
  }
  if (missing.empty()) {
    log_warning("{}: {} has waited for {:.1f} s, although all members have come", text,
                describe(rank_), waited);
  }
  wait.note = WaitNote(WaitKind::Tensor, text, names, wait.began);
}

void CollectiveGroup::give_up(const Wait& wait, const Awaited& awaited) {
  std::vector<std::string> names;
  for (const Missing& one : find_missing(awaited)) {
    names.push_back(fmt::format("{} did not come ({})", describe(one.rank), one.activity));
  }
  if (names.empty()) names.emplace_back("all members have come, but the call is not done");
  const Status late{
      .code = Code::DeadlineExceeded,
      .message = fmt::format("{}: {} within {:.1f} s; the group is closed", text_of(awaited),
                             fmt::join(names, ", "), seconds(awaited.deadline - wait.began)),
      .origin = name_of(rank_)};
  fail(late);
  throw Error(late);
}

}  // namespace cohort::internal
