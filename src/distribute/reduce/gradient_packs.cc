// Where the gradients of variables lie in packs, and which packs are reduced early.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "collectives/communicator_access.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/worker_gradients.h"
#include "distribute/variables/distributed_variable.h"

namespace cohort::internal {
namespace {

// Gradients may become ready in another order on each worker. All lay them out in the order of the
// first worker, because a pack is added up element by element.
std::vector<size_t> agree_on_order(Communicator& workers, const std::vector<size_t>& own,
                                   const CommunicationOptions& how) {
  const Tensor order = Tensor::from(std::vector<int64_t>(own.begin(), own.end()));
  std::vector<size_t> agreed;
  for (const int64_t each : workers.broadcast(order, 0, how).to_vector<int64_t>()) {
    agreed.push_back(static_cast<size_t>(each));
  }
  return agreed;
}

struct Difference {
  int place = 0;
  std::string one = {};
  std::string other = {};
};
// The first line that differs, counted from 0.
Difference first_difference(const std::string& one, const std::string& other) {
  std::istringstream ones(one);
  std::istringstream others(other);
  const auto next = [](std::istringstream& from) {
    std::string line;
    return std::getline(from, line) ? line : std::string("missing");
  };
  for (int place = 0;; ++place) {
    const std::string here = next(ones);
    const std::string there = next(others);
    if (here != there) return {place, here, there};
  }
}

// Throws FailedPrecondition on all workers unless they have the same variables in the same order.
void agree_on_variables(Communicator& workers, const std::vector<Variable>& of,
                        const CommunicationOptions& how) {
  const std::vector<std::string> labels = labels_of(of);
  std::string own;
  for (size_t i = 0; i < of.size(); ++i) {
    own +=
        fmt::format("{} {} {}\n", labels[i], to_string(of[i].dtype()), of[i].shape().to_string());
  }
  const std::vector<std::string> all = texts_of_workers(workers, own, how);
  for (int rank = 1; rank < workers.size(); ++rank) {
    const std::string& other = all[static_cast<size_t>(rank)];
    if (other == all[0]) continue;
    const auto [place, here, there] = first_difference(all[0], other);
    raise(Code::FailedPrecondition,
          "[apply_gradients] the workers update different variables: number {} is {} on {}, {} on "
          "{}; give all the same list in the same order",
          place, here, workers.member(0), there, workers.member(rank));
  }
}

std::vector<bool> agree_on_rows(Communicator& workers, const std::vector<bool>& own,
                                const CommunicationOptions& how) {
  const Tensor rows = Tensor::from(std::vector<int32_t>(own.begin(), own.end()));
  const auto any = workers.all_reduce(rows, ReduceOp::Max, how).to_vector<int32_t>();
  return {any.begin(), any.end()};
}

// Which tensors lie side by side.
struct PackPlan {
  DType dtype;
  std::vector<Shape> shapes = {};
  std::vector<size_t> members = {};
  int64_t bytes = 0;
};

// Plans the packs in this order. A new pack begins when the pack of the dtype exceeds the limit.
// The last pack is of float32, because the counts are in it.
std::vector<PackPlan> plan_packs(const std::vector<Variable>& variables,
                                 const std::vector<bool>& has_rows,
                                 const std::vector<size_t>& order, int64_t limit) {
  std::vector<PackPlan> plans;
  std::map<DType, size_t> open;  // the plan that is being filled, by dtype
  for (const size_t i : order) {
    if (has_rows[i]) continue;
    const DType dtype = variables[i].dtype();
    const auto found = open.find(dtype);
    if (found == open.end() || plans[found->second].bytes > limit) {
      open[dtype] = plans.size();
      plans.push_back({.dtype = dtype});
    }
    PackPlan& plan = plans[open[dtype]];
    plan.shapes.push_back(variables[i].shape());
    plan.members.push_back(i);
    plan.bytes += variables[i].shape().num_elements() * size_of(dtype);
  }
  if (!open.contains(kFloat32)) {
    plans.push_back({.dtype = kFloat32});
  } else {
    std::swap(plans[open[kFloat32]], plans.back());
  }
  return plans;
}

// Compares identities: a gradient that the program has changed is another tensor.
bool is_same(const Gradient& a, const Gradient& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.is_sparse() || b.is_sparse()) return a.is_sparse() == b.is_sparse();
  return TensorAccess::id(a.dense()) == TensorAccess::id(b.dense());
}

}  // namespace

VariableList::VariableList(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) all_.emplace_back(VariableAccess::impl(variable));
}

bool VariableList::operator==(const VariableList& other) const {
  return std::equal(all_.begin(), all_.end(), other.all_.begin(), other.all_.end(),
                    [](const auto& one, const auto& another) {
                      // Compares owners: a new variable may have the address of one that ended.
                      return !one.owner_before(another) && !another.owner_before(one);
                    });
}

bool VariableList::is_gone() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& each) { return each.expired(); });
}

GradientLayout::GradientLayout(Groups& groups, const std::vector<Variable>& of, const Proposal& own,
                               int64_t bytes_per_pack, const CommunicationOptions& how)
    : variables(of) {
  const CollectivePurpose purpose("where the gradients of variables lie");
  agree_on_variables(groups.workers, of, how);
  has_rows = agree_on_rows(groups.workers, own.has_rows, how);
  make_packs(groups, of, agree_on_order(groups.workers, own.order, how), bytes_per_pack, how);
}

void GradientLayout::make_packs(Groups& groups, const std::vector<Variable>& of,
                                const std::vector<size_t>& order, int64_t bytes_per_pack,
                                const CommunicationOptions& how) {
  std::vector<PackPlan> plans = plan_packs(of, has_rows, order, bytes_per_pack);
  counts = {plans.size() - 1, plans.back().shapes.size()};
  plans.back().shapes.push_back(
      Shape{static_cast<int64_t>(of.size()) + 1 + 3 * groups.workers.size()});
  places.resize(of.size());
  for (size_t number = 0; number < plans.size(); ++number) {
    const PackPlan& plan = plans[number];
    for (size_t k = 0; k < plan.members.size(); ++k) places[plan.members[k]] = {number, k};
    sizes.push_back(plan.members.size());
    Communicator& group = number < counts.pack ? groups.early : groups.workers;
    packs.push_back(group.make_pack(plan.dtype, plan.shapes, how));
  }
}

void GradientLayout::write(size_t variable, const Gradient& gradient) {
  const Place place = places[variable];
  Pack& pack = packs[place.pack];
  pack.write(place.index,
             gradient.defined() ? gradient.dense() : zeros(pack.shape(place.index), pack.dtype()));
}

std::vector<size_t> GradientLayout::members(size_t pack) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!has_rows[i] && places[i].pack == pack) all.push_back(i);
  }
  return all;
}

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
  if (replicas_.size() == 1)
    expected_->write(index, gradient);  // while the gradient is in the cache
  if (--missing_[pack] == 0) start_complete();
}

void GradientRounds::start_complete() {
  for (; next_ < expected_->counts.pack && missing_[next_] == 0; ++next_) {
    if (replicas_.size() > 1) write_totals(next_);
    start(next_);
    ++early_packs_;
  }
}

// The reduction has no time limit: perhaps only this worker makes the pass, and the other workers
// start the pack at their next update. The purpose is the same in both cases, because the workers
// compare it.
void GradientRounds::start(size_t pack) {
  const AdoptedPurpose no_purpose(nullptr);
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

void GradientRounds::await(const CommunicationOptions& how) {
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
    // All are awaited, also after a failure, because the reductions use the packs.
    const Status status = capture_status([&] { each.get(); });
    if (first.ok()) first = status;
  }
  throw_if_error(first);
}

}  // namespace cohort::internal
