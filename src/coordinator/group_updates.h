#pragma once

#include <limits>
#include <map>

#include "base/mutex.h"
#include "cohort/device.h"
#include "cohort/gradient.h"
#include "graph/function_graph.h"
#include "graph/traced_settings.h"
#include "tensor/body.h"

namespace cohort::internal {

class ParameterServers;

// One update that is made with the mean of the gradients of several functions, which keep it.
struct GroupUpdate {
  std::string name;  // that no other has
  DeviceName home;   // where what is bound to no variable runs
  std::shared_ptr<const GraphFunction> function = {};
  // When it ends, the servers forget the accumulators and the plan of the update.
  std::vector<std::shared_ptr<const void>> leases = {};
  // Updates that differ in settings alone, such as a learning rate, take from the same
  // accumulators, which have this name in theirs. The one with the largest number has the latest
  // settings.
  std::string gathering = {};
  int number = 0;
};
using GroupUpdatePtr = std::shared_ptr<const GroupUpdate>;

// Gradients of one variable on their way to such an update: what stands in this process for an
// accumulator on the parameter server that has the variable.
class RemoteAccumulator : public Resource {
 public:
  RemoteAccumulator(std::string name, const Variable& variable, bool sparse);

  // The same for functions that add gradients, which keep the update. The update itself takes them
  // from one without it: it would keep itself.
  std::shared_ptr<RemoteAccumulator> for_adding_to(GroupUpdatePtr update) const;

  // That it adds to; null for the one that the update takes them from.
  const GroupUpdatePtr& update() const { return update_; }
  const std::string& name() const { return name_; }
  const DeviceName& device() const { return device_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool sparse() const { return sparse_; }

 private:
  const std::string name_;
  const DeviceName device_;
  const DType dtype_;
  const Shape shape_;
  const bool sparse_;
  GroupUpdatePtr update_;
};

// The container of the accumulators that belong to the variables of `container`.
std::string gathering_container(const std::string& container);

// The updates of a strategy. An update lives while functions add to it, and as the one for the next
// function until its learning rate changes or one of its variables ends. Thread-safe.
class GroupUpdates {
 public:
  explicit GroupUpdates(std::shared_ptr<ParameterServers> servers) : servers_(std::move(servers)) {}

  using Update = std::function<Tensor(const Gradients& mean)>;
  // In a function that is traced: adds the gradients to those that wait for the update, which is
  // traced first when no function before had the same. Another optimizer, which `count` tells,
  // other variables or other kinds of gradients are another update.
  Tensor add(const Gradients& gradients, const std::vector<Variable>& variables,
             const Variable& count, const Update& update);
  // Lets go of the updates whose variables have ended, and so of what else they use on the servers.
  void drop_ended();

  // Those that a function adds gradients to.
  static std::vector<GroupUpdatePtr> of(const GraphFunction& function);

 private:
  struct Gathered {
    GroupUpdatePtr update = {};
    // One for each variable; null for those without gradient.
    std::vector<std::shared_ptr<RemoteAccumulator>> accumulators = {};
    std::vector<Tensor> handles = {};  // of those, for adding; undefined where there is none
    std::vector<std::weak_ptr<const VariableImpl>> variables = {};  // the key's
    UsedSettings settings = {};

    bool has_ended() const;
  };
  using GatheredPtr = std::shared_ptr<const Gathered>;
  using Key = std::vector<std::pair<const void*, int>>;

  GatheredPtr find_or_make(const Gradients& gradients, const std::vector<Variable>& variables,
                           const Variable& count, const Update& update);
  // Null when there is none.
  GatheredPtr find(const Key& key);
  // In place of `outdated`, which may be null. The caller has the turn.
  Gathered make(const Gradients& gradients, const std::vector<Variable>& variables,
                const Update& update, const Gathered* outdated);

  const std::shared_ptr<ParameterServers> servers_;
  Turn making_;                     // of the thread that traces an update, which calls back
  int made_ = 0;                    // guarded by making_
  Mutex mutex_;                     // after making_
  std::map<Key, GatheredPtr> all_;  // guarded by mutex_
};

}  // namespace cohort::internal
