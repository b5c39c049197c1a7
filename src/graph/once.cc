// Updates that are made once although the call that they are part of is repeated: a worker that is
// lost in the middle of a step has its step done again by another, and nobody knows how far it
// came.

#include <map>
#include <mutex>
#include <set>

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/call_function.h"
#include "ops/run_context.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

using FunctionPtr = std::shared_ptr<const GraphFunction>;

// Names a call among those of all coordinators that a task has seen.
struct Claim {
  int64_t coordinator;  // later ones have larger numbers
  int64_t call;
  int64_t all_done_below;  // calls with smaller numbers are over

  static Claim from(const Tensor& numbers) {
    const std::vector<int64_t> three = numbers.to_vector<int64_t>();
    return {three[0], three[1], three[2]};
  }
};

// Which updates a task has made. Thread-safe.
class UpdateLedger : public Resource {
 public:
  using Update = std::pair<const Resource*, int64_t>;

  // Whether the update is to be made: it was not before, and somebody still waits for it.
  bool take(const Claim& claim, const Update& update) {
    const std::lock_guard lock(mutex_);
    if (claim.coordinator < coordinator_) return false;
    if (claim.coordinator > coordinator_) begin(claim.coordinator);
    all_done_below_ = std::max(all_done_below_, claim.all_done_below);
    if (claim.call < all_done_below_) return false;
    std::set<int64_t>& calls = made_[update];
    calls.erase(calls.begin(), calls.lower_bound(all_done_below_));
    return calls.insert(claim.call).second;
  }
  // It failed after all.
  void give_back(const Claim& claim, const Update& update) {
    const std::lock_guard lock(mutex_);
    if (claim.coordinator == coordinator_) made_[update].erase(claim.call);
  }

 private:
  void begin(int64_t coordinator) {
    coordinator_ = coordinator;
    all_done_below_ = 0;
    made_.clear();
  }

  std::mutex mutex_;
  int64_t coordinator_ = 0;  // guarded by mutex_, as all below
  int64_t all_done_below_ = 0;
  std::map<Update, std::set<int64_t>> made_;  // calls that are not known to be over
};

std::shared_ptr<UpdateLedger> ledger_of(Kernel& k) {
  return k.run->resources().find_or_make<UpdateLedger>(
      "coordinator", "ledger", "updates", [] { return std::make_shared<UpdateLedger>(); });
}

std::vector<Tensor> make_update(Kernel& k) {
  return call_function(*k.attrs.get<FunctionPtr>("update"), k.inputs.subspan(1), k.run);
}

// What an update gives that is not made again: the variable as it is, or nothing where the state is
// no variable.
Tensor unchanged(const Resource& state) {
  const auto* cell = dynamic_cast<const VariableCell*>(&state);
  return cell != nullptr ? cell->read() : zeros({0}, kBool);
}

void update_once(Kernel& k) {
  if (k.run == nullptr) {  // called at once, it is not repeated
    k.outputs[0] = make_update(k).at(0);
    return;
  }
  const Claim claim = Claim::from(k.inputs[0]);
  const UpdateLedger::Update update{resource_of(k.inputs[1]).get(), k.attrs.integer("number")};
  const std::shared_ptr<UpdateLedger> ledger = ledger_of(k);
  if (!ledger->take(claim, update)) {
    k.outputs[0] = unchanged(*update.first);
    return;
  }
  const Status status = capture_status([&] { k.outputs[0] = make_update(k).at(0); });
  if (status.ok()) return;
  ledger->give_back(claim, update);
  throw Error(status);
}

Specs infer_once(const OpInputs& inputs) {
  if (inputs.dtype(0) != kInt64 || !inputs.shape(0).is_compatible_with(Shape{3})) {
    raise(Code::InvalidArgument, "[Once] input 0 must be three int64, got {} {}",
          to_string(inputs.dtype(0)), inputs.shape(0).to_string());
  }
  if (inputs.dtype(1) != kResource) {
    raise(Code::InvalidArgument, "[Once] input 1 must be the handle of state, got {}",
          to_string(inputs.dtype(1)));
  }
  const GraphFunction& update = *inputs.attrs.get<FunctionPtr>("update");
  require_arguments(inputs.op, update, inputs.tensors.subspan(1));
  Specs results = result_specs(update);
  if (results.size() != 1) {
    raise(Code::InvalidArgument, "[Once] an update gives the new value, '{}' gives {} tensors",
          update.name, results.size());
  }
  return results;
}

}  // namespace

// Makes the update of the state behind input 1, a variable or gradients that are gathered, unless
// the call that input 0 names has made its update of that number before, or is over: then the
// result is the variable as it is, or nothing. Input 0 is the
// coordinator's number, the call's, and the number below which all calls are over; inputs from 1 on
// are the update's.
extern constexpr OpDef kOnce{
    .name = "Once",
    .dtypes = kAnyType | kResourceType,
    .infer = infer_once,
    .compute = update_once,
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .stateful = true,
};

}  // namespace cohort::internal
