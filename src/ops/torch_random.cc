#include "cohort/internal/torch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "base/mutex.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

// Torch has this key for code that wants to see the calls of a thread. Calls that nothing is
// registered for fall through at no cost.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local TorchGenerator* innermost = nullptr;

}  // namespace

struct TorchGenerator {
  explicit TorchGenerator(uint64_t first) : seed(first), outer(innermost), included(kKey) {}

  // Made when it is first drawn from: most runs draw nothing, and making it takes microseconds.
  at::Generator& get() {
    if (!generator.defined()) generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return generator;
  }

  const uint64_t seed;
  TorchGenerator* const outer;
  at::Generator generator;
  const c10::impl::IncludeDispatchKeyGuard included;
};

namespace {

// Torch's default generator. In a scope, its seed and its state are those of the scope's generator:
// torch::manual_seed() would otherwise do nothing for this thread, and change what others draw.
class DefaultGenerator final : public at::CPUGeneratorImpl {
 public:
  void set_current_seed(uint64_t seed) override {
    if (innermost == nullptr) return CPUGeneratorImpl::set_current_seed(seed);
    innermost->get().set_current_seed(seed);
  }
  uint64_t current_seed() const override {
    return innermost == nullptr ? CPUGeneratorImpl::current_seed()
                                : innermost->get().current_seed();
  }
  uint64_t seed() override {
    return innermost == nullptr ? CPUGeneratorImpl::seed() : innermost->get().seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    if (innermost == nullptr) return CPUGeneratorImpl::set_state(state);
    innermost->get().unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return innermost == nullptr ? CPUGeneratorImpl::get_state()
                                : innermost->get().unsafeGetGeneratorImpl()->get_state();
  }
};

// Goes on where torch's generator was.
bool install_default_generator() {
  at::Generator made = at::make_generator<DefaultGenerator>();
  made.set_state(at::detail::getDefaultCPUGenerator().get_state());
  // The object is not constant: torch::manual_seed() writes to what it holds.
  const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator()) = made;
  return true;
}

// Before main(), while no other thread can draw.
[[maybe_unused]] const bool installed = install_default_generator();

bool is_default(const c10::IValue& generator) {
  return generator.isNone() || generator.toGenerator() == at::detail::getDefaultCPUGenerator();
}

// The place of the argument that names the generator; the number of arguments when none does.
size_t generator_place(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].type()->str() == "Generator?") return i;
  }
  return arguments.size();
}

bool is_elsewhere(const c10::IValue& argument) {
  if (argument.isTensor()) return argument.toTensor().defined() && !argument.toTensor().is_cpu();
  return argument.isDevice() && !argument.toDevice().is_cpu();
}

// Calls the op with the scope's generator, unless the caller gave another one or means another
// device.
void call_with_generator(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const auto arguments = stack->end() - static_cast<std::ptrdiff_t>(count);
  c10::IValue& given = arguments[static_cast<std::ptrdiff_t>(generator_place(op.schema()))];
  const bool here = std::none_of(arguments, stack->end(), is_elsewhere);
  if (innermost != nullptr && here && is_default(given)) given = innermost->get();
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

// Every op whose schema has a generator, whichever version of torch this is. The others that draw
// (dropout, randn of a size alone) call one of these.
void register_kernels() {
  // Never destroyed: threads may still draw when the process ends.
  static auto* const rest = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  rest->fallback(torch::CppFunction::makeFallthrough());
  static auto* const random =
      new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  c10::Dispatcher& all = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : all.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = all.findSchema(name);
    if (!op || generator_place(op->schema()) == op->schema().arguments().size()) continue;
    random->impl(c10::toString(name).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&call_with_generator>());
  }
}

// Of this thread.
at::Generator current_generator() {
  return innermost != nullptr ? innermost->get()
                              : at::globalContext().defaultGenerator(c10::DeviceType::CPU);
}

}  // namespace

uint64_t draw_torch_seed() {
  at::Generator generator = current_generator();
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

std::string torch_random_state() {
  at::Generator generator = current_generator();
  const std::lock_guard lock(generator.mutex());
  const at::Tensor bytes = generator.get_state();
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

void restore_torch_random(const std::string& state) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(state.size())}, at::kByte);
  std::copy(state.begin(), state.end(), static_cast<char*>(bytes.data_ptr()));
  at::Generator generator = current_generator();
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(bytes);
  } catch (const c10::Error& error) {
    raise(Code::DataLoss, "[Random] these {} bytes are not a state of torch's generator: {}",
          state.size(), error.what_without_backtrace());
  }
}

TorchRandomScope::TorchRandomScope(uint64_t seed) {
  static OnceFlag registered;
  registered.call(register_kernels);
  own_ = std::make_unique<TorchGenerator>(seed);
  innermost = own_.get();
}

TorchRandomScope::~TorchRandomScope() { innermost = own_->outer; }

}  // namespace cohort::internal
