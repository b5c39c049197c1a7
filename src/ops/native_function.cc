#include "cohort/native_function.h"

#include <map>

#include "base/mutex.h"
#include "base/raise.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

struct NativeEntry {
  NativeFunction function;
  NativeGradient gradient;
  int registrations = 0;
};

// The program's functions. Filled while it starts and whenever it loads a library.
class NativeTable {
 public:
  void add(std::string name, NativeFunction function, NativeGradient gradient) {
    const std::lock_guard lock(mutex_);
    NativeEntry& entry = entries_[std::move(name)];
    if (++entry.registrations > 1) return;
    entry.function = std::move(function);
    entry.gradient = std::move(gradient);
  }

  // Entries stay where they are and as they are.
  const NativeEntry& find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      raise(Code::NotFound,
            "[NativeFunction] this program has no function '{}'; the program that runs the graph "
            "must register it with COHORT_FUNCTION",
            name);
    }
    if (found->second.registrations > 1) {
      raise(Code::AlreadyExists, "[NativeFunction] '{}' is registered {} times", name,
            found->second.registrations);
    }
    return found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, NativeEntry> entries_;
};

// Never destroyed: functions may be called until the program ends.
NativeTable& native_table() {
  static auto* table = new NativeTable();
  return *table;
}

const std::string& function_name(const Attrs& attrs) { return attrs.get<std::string>("name"); }

// Runs the user's code as if it were called from outside: its ops run at once and unrecorded, and
// torch's autograd works.
template <typename Body>
std::vector<Tensor> call_user(const std::string& name, const Body& body) {
  const PlainDispatch plain;
  const OutsideKernel outside;
  std::vector<Tensor> results;
  Status status = capture_status([&] { results = body(); });
  if (status.ok()) return results;
  status.message = fmt::format("[NativeFunction] '{}' failed: {}", name, status.message);
  throw Error(std::move(status));
}

// Tapes tell tensors apart by identity, so that a result must not be one of the inputs.
Tensor apart_from(const Tensor& result, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (TensorAccess::id(input) == TensorAccess::id(result) && is_numeric(input.dtype())) {
      return from_aten(aten(result));
    }
  }
  return result;
}

void check_result(const std::string& name, std::string_view what, size_t i, const Tensor& result,
                  const Spec& declared) {
  std::string found = "nothing";
  if (result.defined() && result.is_symbolic()) {
    found = "a symbol";
  } else if (result.defined()) {
    if (Spec::of(result).is_compatible_with(declared)) return;
    found = Spec::of(result).to_string();
  }
  raise(Code::InvalidArgument, "[NativeFunction] '{}' returned {} for {} {}, which is {}", name,
        found, what, i, declared.to_string());
}

Specs declared_outputs(const Attrs& attrs) {
  return unpack_specs("NativeFunction", attrs.integers("outputs"));
}

void run_native(Kernel& k) {
  const std::string& name = function_name(k.attrs);
  const NativeEntry& entry = native_table().find(name);
  const Specs declared = declared_outputs(k.attrs);
  const std::vector<Tensor> results = call_user(name, [&] { return entry.function(k.inputs); });
  if (results.size() != declared.size()) {
    raise(Code::InvalidArgument, "[NativeFunction] '{}' returned {} tensors, but {} were declared",
          name, results.size(), declared.size());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    check_result(name, "output", i, results[i], declared[i]);
    k.outputs[i] = apart_from(results[i], k.inputs);
  }
  if (declared.empty()) set_nothing(k);
}

// Inputs of a gradient's call: the function's inputs, its outputs, and the gradients of the
// floating outputs.
struct GradientInputs {
  GradientInputs(const Attrs& attrs, std::span<const Tensor> all)
      : inputs(all.first(static_cast<size_t>(attrs.integer("num_inputs")))),
        outputs(all.subspan(inputs.size(), static_cast<size_t>(attrs.integer("num_outputs")))),
        seeds(all.subspan(inputs.size() + outputs.size())) {}

  // One per output.
  std::vector<Tensor> output_gradients() const {
    std::vector<Tensor> gradients;
    size_t next = 0;
    for (const Tensor& output : outputs) {
      gradients.push_back(is_floating(output.dtype()) ? seeds[next++] : Tensor());
    }
    return gradients;
  }

  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> seeds;
};

Specs infer_gradient(const OpInputs& inputs) {
  const int64_t num_inputs = inputs.attrs.integer("num_inputs");
  const int64_t num_outputs = inputs.attrs.integer("num_outputs");
  const auto size = static_cast<int64_t>(inputs.size());
  if (num_inputs < 0 || num_outputs < 0 || num_inputs > size || num_outputs > size - num_inputs) {
    raise(Code::InvalidArgument,
          "[{}] {} tensors are too few for {} inputs and {} outputs of the function", inputs.op,
          size, num_inputs, num_outputs);
  }
  const GradientInputs parts(inputs.attrs, inputs.tensors);
  size_t floating = 0;
  for (const Tensor& output : parts.outputs) floating += is_floating(output.dtype()) ? 1 : 0;
  if (floating != parts.seeds.size()) {
    raise(Code::InvalidArgument, "[{}] {} floating outputs need as many gradients, got {}",
          inputs.op, floating, parts.seeds.size());
  }
  Specs specs;
  for (const Tensor& input : parts.inputs) {
    if (is_floating(input.dtype())) specs.push_back({input.dtype(), input.shape()});
  }
  return specs;
}

void run_gradient(Kernel& k) {
  const std::string& name = function_name(k.attrs);
  const NativeEntry& entry = native_table().find(name);
  if (!entry.gradient) {
    raise(Code::Unimplemented, "[NativeFunction] '{}' has no gradient in this program", name);
  }
  const GradientInputs parts(k.attrs, k.inputs);
  const std::vector<Tensor> found = call_user(
      name, [&] { return entry.gradient(parts.inputs, parts.outputs, parts.output_gradients()); });
  if (found.size() != parts.inputs.size()) {
    raise(Code::InvalidArgument,
          "[NativeFunction] the gradient of '{}' returned {} tensors for {} inputs", name,
          found.size(), parts.inputs.size());
  }
  size_t next = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor& input = parts.inputs[i];
    if (!is_floating(input.dtype())) continue;
    if (!found[i].defined()) {
      set(k, at::zeros_like(aten(input)), next++);
      continue;
    }
    check_result(name, "the gradient of input", i, found[i], {input.dtype(), input.shape()});
    k.outputs[next++] = apart_from(found[i], k.inputs);
  }
}

}  // namespace

extern constexpr OpDef kNativeFunctionGrad{
    .name = "NativeFunctionGrad",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"name", AttrKind::Text},
              {"num_inputs", AttrKind::Int},
              {"num_outputs", AttrKind::Int}},
    .infer = infer_gradient,
    .compute = run_gradient,
    .no_gradient_because = "the gradient of a native function is native code itself",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

namespace {

Gradients native_gradient(const OpCall& call, std::span<const Tensor> output_gradients) {
  const std::string& name = function_name(call.attrs);
  if (!native_table().find(name).gradient) {
    raise(Code::Unimplemented,
          "[NativeFunction] '{}' has no gradient; register it with COHORT_FUNCTION_WITH_GRADIENT, "
          "or apply stop_gradient() to its inputs to leave it out of the derivative",
          name);
  }
  std::vector<Tensor> inputs = call.inputs;
  inputs.insert(inputs.end(), call.outputs.begin(), call.outputs.end());
  for (const Tensor& gradient : output_gradients) {
    if (gradient.defined()) inputs.push_back(gradient);
  }
  const std::vector<Tensor> found =
      apply_many(kNativeFunctionGrad, inputs,
                 {{"name", name},
                  {"num_inputs", static_cast<int64_t>(call.inputs.size())},
                  {"num_outputs", static_cast<int64_t>(call.outputs.size())}},
                 {});
  Gradients gradients(call.inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (is_floating(call.inputs[i].dtype())) gradients[i] = found[next++];
  }
  return gradients;
}

}  // namespace

// User's code may do anything: it is neither folded nor merged with another call.
extern constexpr OpDef kNativeFunction{
    .name = "NativeFunction",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"name", AttrKind::Text}, {"outputs", AttrKind::Ints}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Specs declared = declared_outputs(inputs.attrs);
      return declared.empty() ? nothing() : declared;
    },
    .compute = run_native,
    .gradient = native_gradient,
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

void NativeRegistration::add(std::string name, NativeFunction function, NativeGradient gradient) {
  native_table().add(std::move(name), std::move(function), std::move(gradient));
}

void check_native_arguments(size_t least, bool open, size_t given) {
  if (given == least || (open && given > least)) return;
  raise(Code::InvalidArgument, "the function takes {}{} tensors, got {}", least,
        open ? " or more" : "", given);
}

}  // namespace internal

std::vector<Tensor> call_native(std::string_view name, const std::vector<Tensor>& inputs,
                                const std::vector<TensorSpec>& outputs, Site site) {
  return internal::apply_many(
      internal::kNativeFunction, inputs,
      {{"name", std::string(name)}, {"outputs", internal::pack_specs(outputs)}}, site);
}

}  // namespace cohort
