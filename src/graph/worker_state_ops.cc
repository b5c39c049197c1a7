// Results of functions that stay on the task that ran them, so that later functions find them
// there, or get them from there. Also releases state that a device keeps by name.

#include <map>

#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "ops/infer.h"
#include "ops/run_context.h"

namespace cohort::internal {

namespace {

// Results by the number of the call that gave them. Thread-safe.
class KeptResults : public Resource {
 public:
  void keep(int64_t call, std::vector<Tensor> results) {
    const std::lock_guard lock(mutex_);
    results_[call] = std::move(results);
  }
  void forget(int64_t call) {
    const std::lock_guard lock(mutex_);
    results_.erase(call);
  }
  Tensor find(int64_t call, size_t output) const {
    const std::lock_guard lock(mutex_);
    const auto found = results_.find(call);
    if (found != results_.end() && output < found->second.size()) return found->second[output];
    raise(Code::Unavailable, "[KeptResult] the task that kept result {} of call {} was restarted",
          output, call);
  }

 private:
  mutable Mutex mutex_;
  std::map<int64_t, std::vector<Tensor>> results_;  // guarded by mutex_
};

std::shared_ptr<KeptResults> kept_by(Kernel& k, std::string_view op) {
  return require_run(k.run, op).resources().find_or_make<KeptResults>(
      k.attrs.get<std::string>("container"), "kept", "results",
      [] { return std::make_shared<KeptResults>(); });
}

void require_numbers(const OpInputs& inputs, const Shape& shape) {
  if (inputs.dtype(0) == kInt64 && inputs.shape(0).is_compatible_with(shape)) return;
  raise(Code::InvalidArgument, "[{}] input 0 must be the int64 number of a call, got {} {}",
        inputs.op, to_string(inputs.dtype(0)), inputs.shape(0).to_string());
}

}  // namespace

// Keeps inputs from 1 on as the results of a call. Input 0 has the number of the call, which is
// negative when the results need not be kept, then the numbers of the calls whose results are not
// needed any more.
extern constexpr OpDef kKeepResults{
    .name = "KeepResults",
    .inputs = {1, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"container", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_numbers(inputs, Shape{Shape::kUnknownDim});
      return {{kBool, Shape{0}}};
    },
    .compute =
        [](Kernel& k) {
          const std::vector<int64_t> numbers = k.inputs[0].to_vector<int64_t>();
          if (numbers.empty()) raise(Code::InvalidArgument, "[KeepResults] input 0 is empty");
          const std::shared_ptr<KeptResults> kept = kept_by(k, "KeepResults");
          for (size_t i = 1; i < numbers.size(); ++i) kept->forget(numbers[i]);
          const std::span<const Tensor> results = k.inputs.subspan(1);
          if (numbers[0] >= 0) kept->keep(numbers[0], {results.begin(), results.end()});
          k.outputs[0] = zeros({0}, kBool);
        },
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

// A result of the call that input 0 names; Unavailable when the task that kept it was restarted.
extern constexpr OpDef kKeptResult{
    .name = "KeptResult",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = AttrList{{"container", AttrKind::Text}, {"output", AttrKind::Int}} + kDeclaredAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_numbers(inputs, Shape{});
      return infer_declared(inputs);
    },
    .compute =
        [](Kernel& k) {
          k.outputs[0] =
              kept_by(k, "KeptResult")
                  ->find(k.inputs[0].to<int64_t>(), static_cast<size_t>(k.attrs.integer("output")));
        },
    .no_gradient_because = "it reads state",
    .traits = Trait::HasEffect,
};

// Input 0 gives the names. A name without state is not an error.
extern constexpr OpDef kForgetState{
    .name = "ForgetState",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"container", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(0) != kString || !inputs.shape(0).is_compatible_with({Shape::kUnknownDim})) {
        raise(Code::InvalidArgument, "[ForgetState] input 0 must be a vector of names, got {} {}",
              to_string(inputs.dtype(0)), inputs.shape(0).to_string());
      }
      return {{kBool, Shape{0}}};
    },
    .compute =
        [](Kernel& k) {
          ResourceTable& table = require_run(k.run, "ForgetState").resources();
          const auto& container = k.attrs.get<std::string>("container");
          for (const std::string& name : k.inputs[0].to_vector<std::string>()) {
            table.forget(container, name);
          }
          k.outputs[0] = zeros({0}, kBool);
        },
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

}  // namespace cohort::internal
