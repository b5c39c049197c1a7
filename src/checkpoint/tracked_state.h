#pragma once

#include <map>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/strategy.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// The content of some tracked objects, by path.
struct TrackedState {
  struct Bytes {
    Trackable::SaveBytes save;
    Trackable::RestoreBytes restore;
    bool is_common = false;  // the same on all workers
  };
  std::map<std::string, Variable> variables;  // slots of optimizers included
  std::map<std::string, Bytes> bytes;
  std::map<std::string, optim::Optimizer*> optimizers;
  // What the slots among the variables begin with, and the optimizers' counts of updates.
  struct SlotBeginning {
    double value;
    std::string iterations;  // path
  };
  std::map<std::string, SlotBeginning> slot_beginnings;
  int depth = 0;  // of objects inside objects

  // These throw AlreadyExists when the path is taken.
  void add(const std::string& path, const Variable& variable);
  void add(const std::string& path, const Bytes& each);
  // Adds the slots that exist. Called after everything else is added, because slots are named by
  // the path of their variable.
  void add_slots();
  // The variable of that path whose slot a saved tensor is, where it is tracked and the optimizer
  // at `optimizer_path` has made no such slot yet.
  struct AwaitedSlot {
    Variable variable;
    std::string slot;
  };
  std::optional<AwaitedSlot> awaited_slot(const std::string& optimizer_path,
                                          const std::string& tensor) const;
  // The strategy whose workers save and restore this together: that of the variables, otherwise the
  // one in whose scope this thread is; null without either.
  StrategyExtended* strategy() const;

 private:
  void check_new(const std::string& path) const;
};

// The implementation of a Trackable.
struct Tracked {
  virtual ~Tracked() = default;
  virtual void collect(const std::string& path, TrackedState& state) const = 0;
  virtual bool contains(const CheckpointImpl& /*checkpoint*/) const { return false; }
};

}  // namespace cohort::internal
