// Updates that are made once although the call that they are part of is repeated: when a worker is
// lost in the middle of a step, another worker repeats the step, and it is unknown how far the
// first one came.

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/function_graph.h"
#include "ops/run_context.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

// Names a call among those of all coordinators of a strategy that a task has seen.
struct Claim {
  int64_t coordinator;  // later ones have larger numbers
  int64_t call;
  int64_t all_done_below;  // calls with smaller numbers are over
  // The iterations of the loops that contain the call, the outermost loop first.
  std::vector<int64_t> iterations;

  static Claim from(const Tensor& numbers) {
    const std::span<const int64_t> all = numbers.data<int64_t>();
    if (all.size() < 3) {
      raise(Code::InvalidArgument, "[IdempotentUpdate] input 0 must be three int64 or more, got {}",
            all.size());
    }
    return {all[0], all[1], all[2], {all.begin() + 3, all.end()}};
  }
};

// Which updates a task has made, and what they gave where that cannot be computed again.
// Thread-safe.
class UpdateLog : public Resource {
 public:
  using Update = std::pair<const Resource*, int64_t>;
  using Given = std::vector<Tensor>;

  // Makes the update, unless it was made before or its call is over: then it returns nullopt, or
  // what the update gave before when that was kept. Waits for an update that is being made, so that
  // a repeated call does not go on before the update is there.
  std::optional<Given> make(const Claim& claim, const Update& update, bool keep,
                            const std::function<Given()>& body) {
    std::unique_lock lock(mutex_);
    const Time time{claim.call, claim.iterations};
    const std::pair<Update, Time> one{update, time};
    made_now_.wait(lock, [&] { return !making_.contains(one); });
    if (claim.coordinator < coordinator_) raise_superseded(claim.coordinator);
    if (claim.coordinator > coordinator_) begin(claim.coordinator);
    if (claim.all_done_below > all_done_below_) forget_below(claim.all_done_below);
    if (claim.call < all_done_below_) return std::nullopt;
    const Times& times = made_[update];
    if (const auto before = times.find(time); before != times.end()) return before->second;
    making_.insert(one);
    lock.unlock();
    Given given;
    const std::exception_ptr failure = capture_exception([&] { given = body(); });
    lock.lock();
    making_.erase(one);
    made_now_.notify_all();
    rethrow_if_any(failure);
    if (claim.coordinator == coordinator_) {
      made_[update][time] = keep ? std::optional(given) : std::nullopt;
    }
    return given;
  }

 private:
  // The number of a call, and the iterations in it.
  using Time = std::pair<int64_t, std::vector<int64_t>>;
  // With the results of the update, where they are kept.
  using Times = std::map<Time, std::optional<Given>>;

  // Numbers are the times at which coordinators started, in nanoseconds.
  [[noreturn]] void raise_superseded(int64_t coordinator) const {
    raise(
        Code::FailedPrecondition,
        "[Coordinator] a coordinator that started {:.3f} s later has updated the variables since; "
        "this one must not change them. Either two chiefs run, and one must stop, or the clock of "
        "this chief's machine is behind; set the clock and start the chief again",
        static_cast<double>(coordinator_ - coordinator) * 1e-9);
  }

  // Forgets the updates of all state: some state is never used again, and kept results may be
  // large.
  void forget_below(int64_t call) {
    all_done_below_ = call;
    for (auto& [update, times] : made_) times.erase(times.begin(), times.lower_bound({call, {}}));
    std::erase_if(made_, [](const auto& entry) { return entry.second.empty(); });
  }

  void begin(int64_t coordinator) {
    coordinator_ = coordinator;
    all_done_below_ = 0;
    made_.clear();
  }

  Mutex mutex_;
  std::condition_variable_any made_now_;
  int64_t coordinator_ = 0;  // guarded by mutex_, as all below
  int64_t all_done_below_ = 0;
  std::map<Update, Times> made_;  // in calls that are not known to be over
  std::set<std::pair<Update, Time>> making_;
};

// One log for the state of each strategy: the coordinators of two strategies work side by side, and
// neither replaces the other. The log stays when a chief clears the container of the strategy.
std::shared_ptr<UpdateLog> log_of(Kernel& k) {
  return k.run->resources().find_or_make<UpdateLog>("coordinator", "ledger",
                                                    k.attrs.get<std::string>("container"),
                                                    [] { return std::make_shared<UpdateLog>(); });
}

std::vector<Tensor> make_update(Kernel& k) {
  return call_function(*k.attrs.get<FunctionPtr>("update"), k.inputs.subspan(1), k.run);
}

// Whether the result of the update must be kept for its repetition. A variable can be read again,
// but an element of an accumulator or an iterator, or a decision, exists once.
bool must_be_kept(const Kernel& k, const Resource& state) {
  return dynamic_cast<const VariableCell*>(&state) == nullptr ||
         k.attrs.get<FunctionPtr>("update")->effects.empty();
}

// The result of an update whose call is over: the variable as it is. What that call has taken or
// decided is not kept any more.
std::vector<Tensor> unchanged(const Resource& state, bool kept) {
  if (!kept) return {dynamic_cast<const VariableCell&>(state).read()};
  raise(Code::Cancelled, "[IdempotentUpdate] the call of this update has already ended");
}

void update_once(Kernel& k) {
  std::vector<Tensor> given;
  if (k.run == nullptr) {  // called at once, it is not repeated
    given = make_update(k);
  } else {
    const UpdateLog::Update update{resource_of(k.inputs[1]).get(), k.attrs.integer("number")};
    const bool keep = must_be_kept(k, *update.first);
    auto made =
        log_of(k)->make(Claim::from(k.inputs[0]), update, keep, [&] { return make_update(k); });
    given = made ? *std::move(made) : unchanged(*update.first, keep);
  }
  std::ranges::move(given, k.outputs.begin());
}

Specs infer_once(const OpInputs& inputs) {
  const Shape& claim = inputs.shape(0);
  const bool fits =
      !claim.has_rank() || (claim.rank() == 1 && (claim[0] == Shape::kUnknownDim || claim[0] >= 3));
  if (inputs.dtype(0) != kInt64 || !fits) {
    raise(Code::InvalidArgument,
          "[IdempotentUpdate] input 0 must be three int64 or more, got {} {}",
          to_string(inputs.dtype(0)), claim.to_string());
  }
  if (inputs.dtype(1) != kResource) {
    raise(Code::InvalidArgument, "[IdempotentUpdate] input 1 must be the handle of state, got {}",
          to_string(inputs.dtype(1)));
  }
  const GraphFunction& update = *inputs.attrs.get<FunctionPtr>("update");
  require_arguments(inputs.op, update, inputs.tensors.subspan(1));
  return result_specs(update);
}

}  // namespace

// Makes an update of some state once for each call of a scheduled function, however often the call
// is repeated. Inputs:
//   0     names the call: [0] the number of the coordinator, [1] the number of the call, [2] the
//         number below which all calls are over, [3] and up the iterations of the loops around
//   1     the handle of the state: a variable, an accumulator, an iterator
//   1...  the arguments of the function `update`
// `number` tells the updates of one call apart. `container` is that of the strategy: calls are
// compared with calls for the same container.
//
// A repetition gives the value of the variable as it is. For other state it gives what the first
// update gave. When the call is over, that is forgotten and the repetition throws Cancelled. An
// update without effects is a decision; a repetition decides the same.
extern constexpr OpDef kIdempotentUpdate{
    .name = "IdempotentUpdate",
    .inputs = {2, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .attrs = {{"update", AttrKind::Function},
              {"number", AttrKind::Int},
              {"container", AttrKind::Text}},
    .infer = infer_once,
    .compute = update_once,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
