#include "distribute/gradient_rounds.h"

#include <algorithm>

#include "distribute/undefined_gradients.h"

namespace cohort::internal {
namespace {

bool is_same(const Gradient& a, const Gradient& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.is_sparse() || b.is_sparse()) return a.is_sparse() == b.is_sparse();
  return TensorAccess::id(a.dense()) == TensorAccess::id(b.dense());
}

}  // namespace

std::vector<Gradient> totals_of(const ReplicaGradients& own, const std::vector<size_t>& variables,
                                const GradientAdder& add) {
  std::vector<Gradient> totals(variables.size());
  std::vector<std::vector<Gradient>> values;
  std::vector<size_t> places;
  for (size_t k = 0; k < variables.size(); ++k) {
    if (own.size() == 1) {
      totals[k] = own[0][variables[k]];
      continue;
    }
    std::vector<Gradient> each;
    for (const Gradients& replica : own) each.push_back(replica[variables[k]]);
    if (!fill_undefined(ReduceOp::Sum, each)) continue;
    values.push_back(std::move(each));
    places.push_back(k);
  }
  if (values.empty()) return totals;
  std::vector<Gradient> sums = add(values);
  for (size_t k = 0; k < places.size(); ++k) totals[places[k]] = std::move(sums[k]);
  return totals;
}

void GradientRounds::begin(size_t replica, const std::vector<VariableImpl*>& variables,
                           GradientLayout* layout) {
  const size_t number = begun_[replica]++;
  if (number < rounds_.size()) {
    // No pack of it has gone, since this replica has given nothing to it.
    if (rounds_[number].variables != variables) rounds_[number].layout = nullptr;
    return;
  }
  Round& made = rounds_.emplace_back();
  made.variables = variables;
  made.gradients.assign(replicas_, Gradients(variables.size()));
  made.order.resize(replicas_);
  made.layout = layout;
  if (layout != nullptr) {
    for (const size_t size : layout->sizes) made.missing.push_back(size * replicas_);
  }
  forget_passed();
}

// Rounds that nobody is in any more were for nothing: nobody applied what they gave.
void GradientRounds::forget_passed() {
  while (std::all_of(begun_.begin(), begun_.end(), [](size_t begun) { return begun > 1; })) {
    await(rounds_.front());
    rounds_.pop_front();
    for (size_t& begun : begun_) --begun;
  }
}

void GradientRounds::ready(size_t replica, size_t index, const Gradient& gradient) {
  Round& round = rounds_[begun_[replica] - 1];
  round.order[replica].push_back(index);
  if (index >= round.variables.size()) return;  // the tape of another list
  round.gradients[replica][index] = gradient;
  if (round.layout == nullptr || round.layout->has_rows[index]) return;
  const size_t pack = round.layout->places[index].pack;
  if (pack == round.layout->counts.pack) return;
  if (replicas_ == 1) round.layout->write(index, gradient);  // while it is at hand
  if (--round.missing[pack] == 0) start(round);
}

// Those that are complete.
void GradientRounds::start(Round& round) {
  GradientLayout& layout = *round.layout;
  for (; round.next + 1 < layout.packs.size() && round.missing[round.next] == 0; ++round.next) {
    if (replicas_ > 1) write_totals(round);
    round.running.push_back(
        workers_.start_all_reduce(layout.packs[round.next], ReduceOp::Sum, how_));
    ++early_packs_;
  }
}

void GradientRounds::write_totals(Round& round) {
  await_before(round);  // the same pack, perhaps
  const std::vector<size_t> members = round.layout->members(round.next);
  const std::vector<Gradient> totals = totals_of(round.gradients, members, add_);
  for (size_t k = 0; k < members.size(); ++k) round.layout->write(members[k], totals[k]);
}

bool GradientRounds::gave(const GradientLayout& layout, const ReplicaGradients& own) const {
  if (rounds_.empty() || rounds_.back().variables != layout.variables) return false;
  const Round& last = rounds_.back();
  for (size_t replica = 0; replica < replicas_; ++replica) {
    if (begun_[replica] != rounds_.size() || last.order[replica].size() != own[replica].size() ||
        !std::equal(own[replica].begin(), own[replica].end(), last.gradients[replica].begin(),
                    is_same)) {
      return false;
    }
  }
  return true;
}

std::vector<size_t> GradientRounds::order_of(const std::vector<VariableImpl*>& variables) const {
  if (!rounds_.empty() && rounds_.back().variables == variables &&
      rounds_.back().order[0].size() == variables.size()) {
    return rounds_.back().order[0];
  }
  std::vector<size_t> order;
  for (size_t i = variables.size(); i > 0; --i) order.push_back(i - 1);
  return order;
}

void GradientRounds::start_rest(GradientLayout& layout) {
  const bool is_last = !rounds_.empty() && rounds_.back().layout == &layout;
  Round& round = is_last ? rounds_.back() : rounds_.emplace_back();
  for (; round.next + 1 < layout.packs.size(); ++round.next) {
    await_before(round);
    round.running.push_back(
        workers_.start_all_reduce(layout.packs[round.next], ReduceOp::Sum, how_));
  }
}

void GradientRounds::await(Round& round) {
  std::vector<std::future<void>> running;
  running.swap(round.running);
  Status first;
  for (std::future<void>& each : running) {
    const Status status = capture_status([&] { each.get(); });
    if (first.ok()) first = status;
  }
  throw_if_error(first);
}

void GradientRounds::await_before(const Round& round) {
  for (Round& earlier : rounds_) {
    if (&earlier == &round) return;
    await(earlier);
  }
}

void GradientRounds::await_all() {
  for (Round& round : rounds_) await(round);
}

void GradientRounds::clear() {
  rounds_.clear();
  std::fill(begun_.begin(), begun_.end(), 0);
}

}  // namespace cohort::internal
