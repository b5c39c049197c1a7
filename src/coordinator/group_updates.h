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

// One update that is made with the mean of the gradients of several functions.
struct GroupUpdate {
  std::string name;  // that no other has
  DeviceName home;   // where what is bound to no variable runs
  std::shared_ptr<const GraphFunction> function = {};
};

// Gradients of one variable on their way to such an update: what stands in this process for an
// accumulator on the parameter server that has the variable.
class RemoteAccumulator : public Resource {
 public:
  // `number` is the variable's among those of the update.
  RemoteAccumulator(const GroupUpdate& update, size_t number, const Variable& variable,
                    bool sparse);

  const GroupUpdate& update() const { return update_; }
  const std::string& name() const { return name_; }
  const DeviceName& device() const { return device_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool sparse() const { return sparse_; }

 private:
  const GroupUpdate& update_;
  const std::string name_;
  const DeviceName device_;
  const DType dtype_;
  const Shape shape_;
  const bool sparse_;
};

// The container of the accumulators that belong to the variables of `container`.
std::string gathering_container(const std::string& container);

// The updates of a strategy. Thread-safe; what it gives lives as long as it does.
class GroupUpdates {
 public:
  using Update = std::function<Tensor(const Gradients& mean)>;
  // In a function that is traced: adds the gradients to those that wait for the update, which is
  // traced first when no function before had the same. Another optimizer, which `count` tells,
  // other variables or other kinds of gradients are another update.
  Tensor add(const Gradients& gradients, const std::vector<Variable>& variables,
             const Variable& count, const Update& update);

  // Those that a function adds gradients to.
  static std::vector<const GroupUpdate*> of(const GraphFunction& function);

 private:
  struct Gathered {
    GroupUpdate update;
    std::vector<Tensor> handles;      // of accumulators; undefined for variables without gradient
    std::vector<Variable> variables;  // keep the key's, as the next
    Variable count;
    UsedSettings settings = {};
  };
  using Key = std::vector<std::pair<const void*, int>>;

  Gathered& find_or_make(const Gradients& gradients, const std::vector<Variable>& variables,
                         const Variable& count, const Update& update);

  Mutex mutex_;
  std::map<Key, std::unique_ptr<Gathered>> all_;  // guarded by mutex_, as all below
  // With a learning rate of before. Functions that were traced then may still run.
  std::vector<std::unique_ptr<Gathered>> outdated_;
  int made_ = 0;
};

}  // namespace cohort::internal
