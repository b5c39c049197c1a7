#include "distribute/gradient_rounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/purpose.h"
#include "collectives/access.h"
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

void GradientRounds::begin_round(GradientLayout* expected) {
  for (Replica& replica : replicas_) replica = {};
  expected_ = expected;
  missing_.clear();
  if (expected != nullptr) {
    for (const size_t size : expected->sizes) missing_.push_back(size * replicas_.size());
  }
  next_ = 0;
  went_empty_ = false;
}

void GradientRounds::begin(size_t replica, const std::vector<Variable>& sources) {
  Replica& its = replicas_[replica];
  const VariableList variables(sources);
  std::erase_if(its.passes, [](const Pass& pass) { return pass.variables.is_gone(); });
  its.is_first = find(replica, variables) == nullptr;
  its.is_expected = its.is_first && expected_ != nullptr && expected_->variables == variables;
  if (its.is_first) its.passes.push_back({variables, Gradients(sources.size())});
}

const GradientRounds::Pass* GradientRounds::find(size_t replica,
                                                 const VariableList& variables) const {
  for (const Pass& pass : replicas_[replica].passes) {
    if (pass.variables == variables) return &pass;
  }
  return nullptr;
}

void GradientRounds::ready(size_t replica, size_t index, const Gradient& gradient) {
  Replica& its = replicas_[replica];
  if (!its.is_first) return;
  Pass& pass = its.passes.back();
  pass.order.push_back(index);
  pass.gradients[index] = gradient;
  if (!its.is_expected || expected_->has_rows[index]) return;
  const size_t pack = expected_->places[index].pack;
  if (pack == expected_->counts.pack || pack < next_) return;
  if (replicas_.size() == 1) expected_->write(index, gradient);  // while it is at hand
  if (--missing_[pack] == 0) start_complete();
}

void GradientRounds::start_complete() {
  for (; next_ < expected_->counts.pack && missing_[next_] == 0; ++next_) {
    if (replicas_.size() > 1) write_totals(next_);
    start(next_);
    ++early_packs_;
  }
}

// Without a limit: a pass may be this worker's alone, and the others come with their next step. For
// one purpose, whether a pass lets the pack go or an update.
void GradientRounds::start(size_t pack) {
  const AdoptedPurpose nobodys(nullptr);
  const CollectivePurpose purpose("gradients of the next update");
  running_.push_back(early_.start_all_reduce(expected_->packs[pack], ReduceOp::Sum));
}

void GradientRounds::write_totals(size_t pack) {
  const std::vector<size_t> members = expected_->members(pack);
  std::vector<size_t> all;
  ReplicaGradients own(replicas_.size());
  for (size_t k = 0; k < members.size(); ++k) {
    all.push_back(k);
    for (size_t r = 0; r < own.size(); ++r) {
      own[r].push_back(find(r, expected_->variables)->gradients[members[k]]);
    }
  }
  const std::vector<Gradient> totals = totals_of(own, all, add_);
  for (size_t k = 0; k < members.size(); ++k) expected_->write(members[k], totals[k]);
}

bool GradientRounds::gave(const GradientLayout& layout, const ReplicaGradients& own) const {
  if (&layout == expected_ && went_empty_) return false;
  for (size_t replica = 0; replica < own.size(); ++replica) {
    const Pass* const pass = find(replica, layout.variables);
    if (pass == nullptr || pass->order.size() != own[replica].size() ||
        !std::equal(own[replica].begin(), own[replica].end(), pass->gradients.begin(), is_same)) {
      return false;
    }
  }
  return true;
}

std::vector<size_t> GradientRounds::order_of(const std::vector<Variable>& variables) const {
  const Pass* const pass = find(0, VariableList(variables));
  if (pass != nullptr && pass->order.size() == variables.size()) return pass->order;
  std::vector<size_t> order;
  for (size_t i = variables.size(); i > 0; --i) order.push_back(i - 1);
  return order;
}

void GradientRounds::start_rest() {
  for (; expected_ != nullptr && next_ < expected_->counts.pack; ++next_) {
    start(next_);
    went_empty_ = true;
  }
}

void GradientRounds::await(const CollectiveOptions& how) {
  std::vector<std::future<void>> running;
  running.swap(running_);
  const Deadline deadline = deadline_of(how);
  Status first;
  for (std::future<void>& each : running) {
    if (how.timeout && each.wait_until(deadline) == std::future_status::timeout) {
      CollectiveAccess::group(early_).fail(
          {.code = Code::DeadlineExceeded,
           .message = fmt::format("[apply_gradients] the workers did not reduce their gradients "
                                  "within {} s; CommunicationOptions sets how long they may take",
                                  std::chrono::duration<double>(*how.timeout).count()),
           .origin = early_.member(early_.rank())});
    }
    const Status status = capture_status([&] { each.get(); });
    if (first.ok()) first = status;
  }
  throw_if_error(first);
}

}  // namespace cohort::internal
