
#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autodiff/backward.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "base/timeline.h"
#include "cohort/gradient.h"
#include "cohort/internal/gradient_listener.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/traced_step.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
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

// The record of a GradientTape: the op calls of one thread that depend on a watched tensor.
class Tape : public Recorder {
 public:
  explicit Tape(const TapeOptions& options) : options_(options) { start(); }
  ~Tape() override { stop(); }

  bool wants(std::span<const Tensor> inputs) const override {
    if (pauses_ > 0 || watched_.empty()) return false;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Tensor& input) { return is_watched(input); });
  }

  void record(const OpCall& call) override {
    // No gradient flows through a write of a variable. Gradients of a later read end at the
    // variable.
    if (call.op->is_stateful() && call.op->gradient == nullptr) return;
    for (const Tensor& input : call.inputs) {
      if (input.dtype() == kResource) used_handles_.insert(TensorAccess::id(input));
    }
    for (const Tensor& output : call.outputs) {
      if (is_floating(output.dtype())) watched_.insert(TensorAccess::id(output));
    }
    calls_.push_back(call);
  }

  void variable_read(const Tensor& handle, const Tensor& value, bool trainable) override {
    if (pauses_ > 0) return;
    if ((trainable && options_.watch_variables) ||
        watched_handles_.contains(TensorAccess::id(handle))) {
      note_read(handle, value);
    }
  }

  void watch(const Tensor& tensor) {
    require_floating(tensor);
    if (watched_.insert(TensorAccess::id(tensor)).second) watched_tensors_.push_back(tensor);
  }

  void watch(const Tensor& handle, const Tensor& value) {
    require_floating(value);
    if (watched_handles_.insert(TensorAccess::id(handle)).second) {
      watched_tensors_.push_back(handle);
    }
    note_read(handle, value);
  }

  // Whether `tensor` was watched, or computed from a watched tensor.
  bool is_watched(const Tensor& tensor) const {
    return watched_.contains(TensorAccess::id(tensor));
  }

  // The values of a variable that computations on this tape started from, and its handle where
  // functions of a graph took it to read the variable themselves.
  std::vector<Tensor> reads(const Tensor& handle) const {
    const auto found = reads_.find(TensorAccess::id(handle));
    if (found == reads_.end()) return {};
    std::vector<Tensor> values = found->second.values;
    if (used_handles_.contains(TensorAccess::id(handle))) values.push_back(handle);
    return values;
  }

  // The recorded calls. A tape that is not persistent gives them away, stops recording and holds
  // nothing afterwards; another call then throws FailedPrecondition.
  std::vector<OpCall> take_calls() {
    if (options_.persistent) return calls_;
    if (spent_) {
      raise(Code::FailedPrecondition,
            "[GradientTape] gradient() was already called; make the tape with {{.persistent = "
            "true}} to call it several times");
    }
    spent_ = true;
    stop();
    std::vector<OpCall> calls = std::move(calls_);
    forget();
    return calls;
  }

  void reset() {
    forget();
    spent_ = false;
    if (!recording_) start();
  }

  void pause() { ++pauses_; }
  void resume() { --pauses_; }

 private:
  void start() {
    outer = thread_dispatch().recorder;
    if (outer == nullptr) begin_step();
    thread_dispatch().recorder = this;
    recording_ = true;
  }

  void stop() {
    if (!recording_) return;
    recording_ = false;
    remove_recorder(*this);
  }

  void forget() {
    calls_.clear();
    watched_.clear();
    watched_tensors_.clear();
    reads_.clear();
    watched_handles_.clear();
    used_handles_.clear();
  }

  void note_read(const Tensor& handle, const Tensor& value) {
    if (!is_floating(value.dtype()) || !watched_.insert(TensorAccess::id(value)).second) return;
    Reads& reads = reads_[TensorAccess::id(handle)];
    reads.handle = handle;
    reads.values.push_back(value);
    // A function of the graph may have read it, and takes the handle.
    if (value.is_symbolic()) watched_.insert(TensorAccess::id(handle));
  }

  const TapeOptions options_;
  bool recording_ = false;
  bool spent_ = false;
  int pauses_ = 0;
  std::vector<OpCall> calls_;
  // Watched tensors and what was computed from them. calls_, watched_tensors_ and reads_ hold them,
  // so that no identity is used twice.
  std::unordered_set<const TensorBody*> watched_;
  std::vector<Tensor> watched_tensors_;
  // By variable: its handle, and the values read from it.
  struct Reads {
    Tensor handle;
    std::vector<Tensor> values;
  };
  std::unordered_map<const TensorBody*, Reads> reads_;
  std::unordered_set<const TensorBody*> watched_handles_;
  std::unordered_set<const TensorBody*> used_handles_;  // by calls on the tape
};

}  // namespace internal

namespace {

using internal::raise;

// d(result)/d(target) for each target, checked against it.
std::vector<Tensor> target_seeds(const std::vector<Tensor>& targets,
                                 const GradientOptions& options) {
  if (!options.output_gradients.empty() && options.output_gradients.size() != targets.size()) {
    raise(Code::InvalidArgument,
          "[GradientTape] needs one output gradient per target, got {} for {} targets",
          options.output_gradients.size(), targets.size());
  }
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!is_floating(targets[i].dtype())) {
      raise(Code::InvalidArgument,
            "[GradientTape] a target is {}, but only floating values have gradients",
            to_string(targets[i].dtype()));
    }
    if (options.output_gradients.empty()) {
      seeds.push_back(ones_like(targets[i]));
      continue;
    }
    const Tensor& seed = options.output_gradients[i];
    if (!seed.shape().is_compatible_with(targets[i].shape())) {
      raise(Code::InvalidArgument,
            "[GradientTape] output gradient {} has shape {}, but its target has {}", i,
            seed.shape().to_string(), targets[i].shape().to_string());
    }
    seeds.push_back(cast(seed, targets[i].dtype()));
  }
  return seeds;
}

// Tells a listener of the gradients of groups. The gradient of a group with one source is reported
// as soon as it is final.
class GroupReports {
 public:
  GroupReports(const std::vector<std::vector<Tensor>>& groups, internal::GradientListener& listener)
      : listener_(listener) {
    for (const auto& group : groups) {
      groups_.insert(groups_.end(), group.size(), sizes_.size());
      sizes_.push_back(group.size());
    }
  }

  // The gradient of source number `source`, counted over all groups one after the other.
  void add(size_t source, const Gradient& part) {
    const size_t group = groups_[source];
    if (sizes_[group] == 1) listener_.ready(group, part);
  }

  // Gradients of groups with several sources, or with none, are known only at the end.
  void end(const Gradients& results) {
    for (size_t group = 0; group < results.size(); ++group) {
      if (sizes_[group] != 1) listener_.ready(group, results[group]);
    }
  }

 private:
  internal::GradientListener& listener_;
  std::vector<size_t> groups_;  // which group each source is of
  std::vector<size_t> sizes_;
};

// Reverse walk for groups of tensors, with `like` telling what zeros look like when nothing is
// connected.
Gradients group_gradients(internal::Tape& tape, const std::vector<Tensor>& targets,
                          const std::vector<std::vector<Tensor>>& groups,
                          const std::vector<Tensor>& like, const GradientOptions& options,
                          internal::GradientListener* listener = nullptr) {
  const GradientTape::Pause pause(tape);
  std::optional<internal::BackwardSpan> span;
  if (internal::thread_dispatch().builder == nullptr) {
    span.emplace();
  } else if (!targets.empty()) {
    internal::end_traced_forward(targets[0]);
  }
  const std::vector<Tensor> seeds = target_seeds(targets, options);
  std::optional<GroupReports> reports;
  internal::FinalGradient final;
  if (listener != nullptr) {
    reports.emplace(groups, *listener);
    final = [&](size_t i, const Gradient& gradient) { reports->add(i, gradient); };
  }
  Gradients results = internal::backward(tape.take_calls(), targets, seeds, groups, final);
  for (size_t i = 0; i < results.size() && options.unconnected == Unconnected::Zero; ++i) {
    if (!results[i].defined()) results[i] = zeros_like(like[i]);
  }
  if (reports) reports->end(results);
  return results;
}

}  // namespace

GradientTape::GradientTape(TapeOptions options)
    : tape_(std::make_unique<internal::Tape>(options)) {}
GradientTape::~GradientTape() = default;

void GradientTape::watch(const Tensor& tensor) { tape_->watch(tensor); }

void GradientTape::watch(const Variable& variable, Site site) {
  const internal::SiteScope there(site);
  const auto& impl = internal::VariableAccess::impl(variable);
  tape_->watch(impl->handle().handle, impl->read());
}

Gradients GradientTape::gradient(const std::vector<Tensor>& targets,
                                 const std::vector<Tensor>& sources, const GradientOptions& options,
                                 Site site) {
  const internal::SiteScope there(site);
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& source : sources) {
    groups.push_back(tape_->is_watched(source) ? std::vector{source} : std::vector<Tensor>());
  }
  return group_gradients(*tape_, targets, groups, sources, options);
}

Gradients GradientTape::gradient(const std::vector<Tensor>& targets,
                                 const std::vector<Variable>& sources,
                                 const GradientOptions& options, Site site) {
  const internal::SiteScope there(site);
  std::vector<std::vector<Tensor>> groups;
  std::vector<Tensor> like;
  for (const Variable& source : sources) {
    const auto& impl = internal::VariableAccess::impl(source);
    groups.push_back(tape_->reads(impl->handle().handle));
    if (options.unconnected == Unconnected::Zero) like.push_back(impl->read());
  }
  internal::GradientListener* const listener = internal::find_gradient_listener(sources);
  if (listener != nullptr) listener->begin(sources);
  return group_gradients(*tape_, targets, groups, like, options, listener);
}

Gradients GradientTape::gradient(const Tensor& target, const std::vector<Tensor>& sources,
                                 const GradientOptions& options, Site site) {
  return gradient(std::vector<Tensor>{target}, sources, options, site);
}

Gradients GradientTape::gradient(const Tensor& target, const std::vector<Variable>& sources,
                                 const GradientOptions& options, Site site) {
  return gradient(std::vector<Tensor>{target}, sources, options, site);
}

Gradients GradientTape::gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                                 const GradientOptions& options, Site site) {
  return gradient(target, std::vector<Tensor>(sources), options, site);
}

Gradients GradientTape::gradient(const Tensor& target, std::initializer_list<Variable> sources,
                                 const GradientOptions& options, Site site) {
  return gradient(target, std::vector<Variable>(sources), options, site);
}

Gradient GradientTape::gradient(const Tensor& target, const Tensor& source,
                                const GradientOptions& options, Site site) {
  return gradient(std::vector<Tensor>{target}, std::vector<Tensor>{source}, options, site)[0];
}

Gradient GradientTape::gradient(const Tensor& target, const Variable& source,
                                const GradientOptions& options, Site site) {
  return gradient(std::vector<Tensor>{target}, std::vector<Variable>{source}, options, site)[0];
}

void GradientTape::reset() { tape_->reset(); }

GradientTape::Pause GradientTape::stop_recording() { return Pause(*tape_); }
GradientTape::Pause::Pause(internal::Tape& tape) : tape_(tape) { tape_.pause(); }
GradientTape::Pause::~Pause() { tape_.resume(); }

namespace internal {
namespace {

std::atomic<GradientListenerFinder>& finder_in_use() {
  static std::atomic<GradientListenerFinder> finder{nullptr};
  return finder;
}

}  // namespace

void set_gradient_listener_finder(GradientListenerFinder finder) { finder_in_use() = finder; }

GradientListener* find_gradient_listener(const std::vector<Variable>& sources) {
  const GradientListenerFinder finder = finder_in_use().load(std::memory_order_relaxed);
  return finder != nullptr ? finder(sources) : nullptr;
}

}  // namespace internal
}  // namespace cohort
