#pragma once

#include <map>

#include "base/mutex.h"
#include "cohort/device.h"
#include "cohort/gradient.h"
#include "graph/function_graph.h"
#include "graph/tracing.h"
#include "tensor/body.h"

namespace cohort::internal {

class ParameterServers;

// One update with the mean of the gradients of several functions. The functions keep it alive.
struct GroupUpdate {
  std::string name;  // unique
  DeviceName home;   // where nodes run that use no variable
  std::shared_ptr<const GraphFunction> function = {};
  // When the leases end, the servers forget the accumulators and the plan of the update.
  std::vector<std::shared_ptr<const void>> leases = {};
  // Updates that differ only in settings, such as a learning rate, take from the same accumulators,
  // whose names contain this name. The update with the largest number has the latest settings.
  std::string gathering = {};
  int number = 0;
};
using GroupUpdatePtr = std::shared_ptr<const GroupUpdate>;

// Stands in this process for an accumulator on a parameter server, which gathers the gradients of
// one variable for an update.
class RemoteAccumulator : public Resource {
 public:
  RemoteAccumulator(std::string name, const Variable& variable, bool sparse);

  // A copy for functions that add gradients; the copy keeps the update alive. The update's own
  // accumulators do not, or the update would keep itself alive.
  std::shared_ptr<RemoteAccumulator> for_adding_to(GroupUpdatePtr update) const {
    auto adding = std::make_shared<RemoteAccumulator>(*this);
    adding->update_ = std::move(update);
    return adding;
  }

  // The update that it adds to; null for an accumulator of the update itself.
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

// The updates of a strategy. An update lives while functions add to it. It also stays for the next
// functions until its learning rate changes or one of its variables ends. Thread-safe.
class GroupUpdates {
 public:
  explicit GroupUpdates(std::shared_ptr<ParameterServers> servers) : servers_(std::move(servers)) {}

  using Update = std::function<Tensor(const Gradients& mean)>;
  // Called while a function is traced: adds the gradients for the update. Traces the update when no
  // earlier function had the same. Updates differ by the optimizer, which `count` tells, by the
  // variables, and by the kinds of gradients.
  Tensor add(const Gradients& gradients, const std::vector<Variable>& variables,
             const Variable& count, const Update& update);
  // Drops the updates whose variables have ended, and with them their leases on the servers.
  void drop_ended();

  // The updates that a function adds gradients to.
  static std::vector<GroupUpdatePtr> of(const GraphFunction& function);

 private:
  struct Gathered {
    GroupUpdatePtr update = {};
    // One for each variable; null for a variable without a gradient.
    std::vector<std::shared_ptr<RemoteAccumulator>> accumulators = {};
    std::vector<Tensor> handles = {};  // for adding to the accumulators; undefined where null
    std::vector<std::weak_ptr<const VariableImpl>> variables = {};  // of the key
    UsedSettings settings = {};

    bool has_ended() const;
  };
  using GatheredPtr = std::shared_ptr<const Gathered>;
  using Key = std::vector<std::pair<const void*, int>>;

  GatheredPtr find_or_make(const Gradients& gradients, const std::vector<Variable>& variables,
                           const Variable& count, const Update& update);
  // Makes an update in place of `outdated`, which may be null. The caller has the turn.
  Gathered make(const Gradients& gradients, const std::vector<Variable>& variables,
                const Update& update, const Gathered* outdated);

  const std::shared_ptr<ParameterServers> servers_;
  Turn making_;                     // of the thread that traces an update, which calls back
  int made_ = 0;                    // guarded by making_
  Mutex mutex_;                     // after making_
  std::map<Key, GatheredPtr> all_;  // guarded by mutex_
};

}  // namespace cohort::internal
