#include "autodiff/tape.h"

#include <algorithm>

#include "base/raise.h"
#include "base/timeline.h"
#include "ops/traced_step.h"

namespace cohort::internal {
namespace {

// What the outermost tape of a thread records is a step's forward pass.
void begin_step() {
  if (thread_dispatch().builder == nullptr) {
    note_forward();
  } else {
    begin_traced_step();
  }
}

void require_floating(const Tensor& watched) {
  if (is_floating(watched.dtype())) return;
  raise(Code::InvalidArgument,
        "[GradientTape] only floating values can be watched, got {}; cast() it first",
        to_string(watched.dtype()));
}

}  // namespace

Tape::Tape(const TapeOptions& options) : options_(options) { start(); }
Tape::~Tape() { stop(); }

void Tape::start() {
  outer = thread_dispatch().recorder;
  if (outer == nullptr) begin_step();
  thread_dispatch().recorder = this;
  recording_ = true;
}

void Tape::stop() {
  if (!recording_) return;
  recording_ = false;
  remove_recorder(*this);
}

bool Tape::wants(std::span<const Tensor> inputs) const {
  if (pauses_ > 0 || watched_.empty()) return false;
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
    return watched_.contains(TensorAccess::id(input));
  });
}

void Tape::record(const OpCall& call) {
  // The way ends where a value is put into a variable; reading it begins a new one.
  if (call.op->is_stateful() && call.op->gradient == nullptr) return;
  for (const Tensor& input : call.inputs) {
    if (input.dtype() == kResource) used_handles_.insert(TensorAccess::id(input));
  }
  for (const Tensor& output : call.outputs) {
    if (is_floating(output.dtype())) watched_.insert(TensorAccess::id(output));
  }
  calls_.push_back(call);
}

void Tape::variable_read(const Tensor& handle, const Tensor& value, bool trainable) {
  if (pauses_ > 0) return;
  if ((trainable && options_.watch_variables) ||
      watched_handles_.contains(TensorAccess::id(handle))) {
    note_read(handle, value);
  }
}

void Tape::note_read(const Tensor& handle, const Tensor& value) {
  if (!is_floating(value.dtype()) || !watched_.insert(TensorAccess::id(value)).second) return;
  Reads& reads = reads_[TensorAccess::id(handle)];
  reads.handle = handle;
  reads.values.push_back(value);
  // A function of the graph may have read it, and takes the handle.
  if (value.is_symbolic()) watched_.insert(TensorAccess::id(handle));
}

void Tape::watch(const Tensor& tensor) {
  require_floating(tensor);
  if (watched_.insert(TensorAccess::id(tensor)).second) watched_tensors_.push_back(tensor);
}

void Tape::watch(const Tensor& handle, const Tensor& value) {
  require_floating(value);
  if (watched_handles_.insert(TensorAccess::id(handle)).second) watched_tensors_.push_back(handle);
  note_read(handle, value);
}

std::vector<Tensor> Tape::reads(const Tensor& handle) const {
  const auto found = reads_.find(TensorAccess::id(handle));
  if (found == reads_.end()) return {};
  std::vector<Tensor> values = found->second.values;
  if (used_handles_.contains(TensorAccess::id(handle))) values.push_back(handle);
  return values;
}

std::vector<OpCall> Tape::take_calls() {
  if (options_.persistent) return calls_;
  if (spent_) {
    raise(Code::FailedPrecondition,
          "[GradientTape] gradient() was called before; a tape that is to give several needs "
          "{{.persistent = true}}");
  }
  spent_ = true;
  stop();
  std::vector<OpCall> calls = std::move(calls_);
  forget();
  return calls;
}

void Tape::forget() {
  calls_.clear();
  watched_.clear();
  watched_tensors_.clear();
  reads_.clear();
  watched_handles_.clear();
  used_handles_.clear();
}

void Tape::reset() {
  forget();
  spent_ = false;
  if (!recording_) start();
}

}  // namespace cohort::internal
