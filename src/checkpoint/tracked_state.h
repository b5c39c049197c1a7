#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "checkpoint/checkpoint_contents.h"
#include "cohort/checkpoint.h"
#include "cohort/strategy_extended.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// The content of tracked objects, by path.
struct TrackedState {
  struct Bytes {
    Trackable::SaveBytes save;
    Trackable::RestoreBytes restore;
    bool is_common = false;  // the same on all workers
  };
  std::map<std::string, Variable> variables;  // slots of optimizers included
  std::map<std::string, Bytes> bytes;
  std::map<std::string, optim::Optimizer*> optimizers;
  std::set<std::string> objects;  // the paths of all tracked objects but checkpoints
  // The initial values of the slots among the variables, and the counts of updates of their
  // optimizers.
  struct SlotBeginning {
    double value;
    std::string iterations;  // path
  };
  std::map<std::string, SlotBeginning> slot_beginnings;
  int depth = 0;  // of objects inside objects

  // These functions throw AlreadyExists if the path is taken.
  void add(const std::string& path, const Variable& variable);
  void add(const std::string& path, const Bytes& each);
  // Adds the existing slots. Call it last, because a slot is named by the path of its variable.
  void add_slots();
  // The variable and slot to which a saved tensor belongs, if the variable is tracked and the
  // optimizer at `optimizer_path` has not created this slot yet.
  struct AwaitedSlot {
    Variable variable;
    std::string slot;
  };
  std::optional<AwaitedSlot> awaited_slot(const std::string& optimizer_path,
                                          const std::string& tensor) const;
  // The strategy whose workers save and restore this together: that of the variables, otherwise the
  // strategy in whose scope this thread is; null without either.
  StrategyExtended* strategy() const;

 private:
  void check_new(const std::string& path) const;
};

// The implementation of a Trackable.
struct Tracked {
  // Adds the content of the object at this path.
  std::function<void(const std::string& path, TrackedState& state)> collect;
  std::shared_ptr<const CheckpointImpl> checkpoint = nullptr;  // the object, if it is a checkpoint
};

std::shared_ptr<const Tracked> tracked_bytes(TrackedState::Bytes bytes);

// A restore that may not be complete: objects may be created after the checkpoint was read. The
// destructor warns of the values that no object used. Thread-safe.
struct RestoreState {
  explicit RestoreState(std::string_view prefix);
  ~RestoreState();

  // Assigns to the objects in `state` the values that were not assigned before. Throws NotFound and
  // InvalidArgument before it changes anything.
  void apply(const TrackedState& state);
  // Takes a tensor that belongs to no object.
  std::optional<Tensor> take(const std::string& name);

  const CheckpointFiles files;
  Turn turn;  // of the thread that restores, which calls the user's code and may wait for workers
  std::set<std::string> unused;   // guarded by turn, as all below
  std::set<std::string> missing;  // paths of objects that the checkpoint does not have
  std::set<std::string> objects;  // the paths of objects whose variables were restored
  bool quiet = false;

 private:
  // The values for objects, which are read before any object changes.
  struct Values;
  Values read_values(const TrackedState& state);
  // The value of a slot that did not exist yet when its optimizer was saved.
  std::optional<double> beginning_of(const TrackedState& state, const std::string& path) const;
  Shape bytes_shape(const std::string& path) const;
  // The bytes of this worker if the checkpoint has those of equally many workers, otherwise the
  // bytes of the chief.
  std::string read_bytes(const std::string& path, const TrackedState& state) const;
  void check_fits(const std::string& name, DType dtype, const Shape& shape) const;
};

}  // namespace cohort::internal
