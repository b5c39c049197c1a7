#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "base/once_flag.h"
#include "cohort/function.h"
#include "graph/function_graph.h"
#include "graph/traced_settings.h"
#include "runtime/compiled_run.h"
#include "tensor/devices.h"

namespace cohort::internal {

// What one run of a function's C++ code on symbols gave.
class Trace {
 public:
  Trace(const std::string& name, std::vector<Spec> arguments, const Device& home,
        const TracedBody& body);

  const std::vector<Spec>& arguments() const { return arguments_; }
  const GraphFunction& function() const { return *function_; }
  const std::shared_ptr<const void>& structure() const { return structure_; }
  // The body by devices; null when it runs on the caller's alone. Made when first asked for.
  const CompiledRun* parts() const;
  // Of objects that the code used.
  const UsedSettings& settings() const { return settings_; }

 private:
  const std::vector<Spec> arguments_;
  const Device& home_;
  UsedSettings settings_;
  std::shared_ptr<const void> structure_;
  std::shared_ptr<const GraphFunction> function_;
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const CompiledRun> parts_;
};

// The traces of a function for one kind of call: one C++ signature, in one place and on one device.
// Thread-safe; who needs a trace that is being made waits for it.
class Traces {
 public:
  explicit Traces(std::string name) : name_(std::move(name)) {}

  // Null for a function that can only run as C++.
  std::shared_ptr<const Trace> find_or_make(std::span<const Tensor> arguments, const Device& home,
                                            const TracedBody& body);
  size_t size() const;

 private:
  static constexpr size_t kTracesBeforeRelaxing = 3;

  // The mutex is held by the callers of these.
  std::shared_ptr<const Trace> find_or_add(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body);
  // Traces that have an old setting inside are never called again.
  void drop_outdated();
  std::shared_ptr<const Trace> add(const std::vector<Spec>& specs, const Device& home,
                                   const TracedBody& body);
  // A trace for any first size, unless the code needs to know it.
  std::shared_ptr<const Trace> try_relaxed(const std::vector<Spec>& specs, const Device& home,
                                           const TracedBody& body);

  const std::string name_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Trace>> traces_;  // by what was asked for
  std::vector<std::shared_ptr<const Trace>> relaxed_;
  size_t made_ = 0;
  bool untraceable_ = false;
};

// All traces of one function.
class TracedFunction {
 public:
  explicit TracedFunction(std::string name) : name_(std::move(name)) {}

  // As Traces::find_or_make.
  std::shared_ptr<const Trace> trace_for(const Flat& arguments, const TracedBody& body);
  size_t size() const;

 private:
  // Place, device, C++ types, kinds.
  using Kind = std::tuple<uint64_t, const Device*, size_t, std::string>;

  const std::string name_;
  mutable std::mutex mutex_;
  std::map<Kind, Traces> kinds_;  // guarded by mutex_; entries stay where they are
};

}  // namespace cohort::internal
