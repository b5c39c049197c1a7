#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_context.h"
#include "ops/op.h"
#include "tensor/body.h"

namespace cohort::internal {

// Something that wants to know what a thread computes: a tape.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Whether an op on these inputs is to be recorded.
  virtual bool wants(std::span<const Tensor> inputs) const = 0;
  virtual void record(const OpCall& call) = 0;
  // `value` is what a variable's copy, named by its handle, holds now.
  virtual void variable_read(const Tensor& handle, const Tensor& value, bool trainable) = 0;

  Recorder* outer = nullptr;  // the next one to tell; this thread's recorders form a list
};

// Something that takes op calls down instead of running them: a graph.
class GraphBuilder {
 public:
  virtual ~GraphBuilder() = default;
  // Adds a node and returns its outputs as symbols. Concrete inputs become constants.
  virtual std::vector<Tensor> append(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                                     const Specs& outputs, Site site) = 0;
  // Whether a variable made meanwhile is a node of the graph; otherwise it is made at once,
  // outside.
  virtual bool makes_variables() const = 0;
};

class RecordingPause;

// What this thread's op calls go to besides the kernels.
struct ThreadDispatch {
  Recorder* recorder = nullptr;     // innermost
  GraphBuilder* builder = nullptr;  // innermost graph being built; null = run at once
  RecordingPause* pause = nullptr;  // innermost; each has set the outer recorders aside

  // A tape records what its own thread does; a graph takes nodes of all threads.
  ThreadDispatch captured() const { return {.builder = builder}; }
};
ThreadDispatch& thread_dispatch();

// Whether a variable that this thread makes is a node of a graph that sessions run.
inline bool builds_session_graph() {
  const GraphBuilder* const builder = thread_dispatch().builder;
  return builder != nullptr && builder->makes_variables();
}
// Whether this thread traces a function. Building a session's graph does not count: programs
// iterate and feed sessions meanwhile.
inline bool is_tracing() { return thread_dispatch().builder != nullptr && !builds_session_graph(); }

// Tells this thread's recorders about a call that did not come through apply().
void record_call(const OpCall& call);

// Takes `recorder` out of this thread's list, wherever it is: set aside by a pause, perhaps.
void remove_recorder(const Recorder& recorder);

// While it lives, this thread's recorders record nothing, except those that begin meanwhile.
class RecordingPause {
 public:
  RecordingPause() : paused_(thread_dispatch().recorder), outer_(thread_dispatch().pause) {
    thread_dispatch().recorder = nullptr;
    thread_dispatch().pause = this;
  }
  ~RecordingPause() {
    thread_dispatch().recorder = paused_;
    thread_dispatch().pause = outer_;
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  friend void remove_recorder(const Recorder& recorder);

  Recorder* paused_;
  RecordingPause* outer_;
};

// While it lives, this thread's op calls run at once and are not recorded, as code that a kernel
// calls expects.
class PlainDispatch {
 public:
  PlainDispatch() : at_once_(thread_dispatch().builder, nullptr) {}

 private:
  const RecordingPause not_recorded_;
  const ScopedValue<GraphBuilder*> at_once_;
};

// While it lives, this thread's op calls go to the graph of `tensor`, when that is a symbol and no
// graph is being built anyway.
class BuilderOf {
 public:
  explicit BuilderOf(const Tensor& tensor) : outer_(thread_dispatch().builder) {
    if (outer_ != nullptr || !tensor.defined() || !tensor.is_symbolic()) return;
    builder_ = static_cast<const SymbolBody&>(body(tensor)).builder.lock();
    thread_dispatch().builder = builder_.get();
  }
  ~BuilderOf() { thread_dispatch().builder = outer_; }
  BuilderOf(const BuilderOf&) = delete;
  BuilderOf& operator=(const BuilderOf&) = delete;

 private:
  GraphBuilder* const outer_;
  std::shared_ptr<GraphBuilder> builder_;
};

// While it lives, kernels may be executed on this thread. Making one costs a little, so a run of
// many ops makes one for all of them.
class KernelScope {
 public:
  KernelScope();
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  alignas(
      8) unsigned char storage_[32];  // the kernel library's guard, whose header stays out of here
};

// State that another process keeps. Ops on it that this process executes run in that process.
class RemoteResource {
 public:
  virtual ~RemoteResource() = default;
  // Runs `op`, whose first input is the handle of this resource. Other handles among the inputs
  // belong to resources of the same process.
  virtual std::vector<Tensor> run(const OpDef& op, std::span<const Tensor> inputs,
                                  const Attrs& attrs) const = 0;
};

// The remote resource that `inputs`, those of an op, begin with; null when there is none.
const RemoteResource* remote_resource_of(std::span<const Tensor> inputs);

// Runs the op's kernel on concrete inputs that passed `infer`. Failures of the kernel library
// become Errors that name the op. With a `run` the inputs are given away: a kernel may write over
// those that only the run holds.
void execute(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
             std::span<Tensor> outputs, RunContext* run);

// "2 NaN and 0 infinite among 6 values of shape (2, 3)"; empty when there is neither, as in a
// tensor that is not floating.
std::string describe_non_finite(const Tensor& x);

// Whether a NumericsGuard lives on this thread.
bool numerics_guarded();

}  // namespace cohort::internal
