#pragma once

#include <mutex>
#include <set>
#include <string>

#include "checkpoint/contents.h"
#include "checkpoint/tracked.h"

namespace cohort::internal {

// A restore under way: objects may come later than the checkpoint. Thread-safe. What nobody used is
// a warning at its end.
struct RestoreState {
 public:
  explicit RestoreState(std::string_view prefix);
  ~RestoreState();

  // Gives the objects in `state` the values that have not been given out yet. Throws NotFound and
  // InvalidArgument before anything changes.
  void apply(const TrackedState& state);
  // A tensor that is no object's.
  std::optional<Tensor> take(const std::string& name);

  void assert_existing_objects_matched();
  void assert_consumed();
  void expect_partial();

 private:
  // The values for objects, read before any of them changes.
  struct Values;
  Values read_values(const TrackedState& state);
  // What a slot goes back to whose optimizer was saved before it had that slot.
  std::optional<double> beginning_of(const TrackedState& state, const std::string& path) const;
  Shape bytes_shape(const std::string& path) const;
  // This worker's, where each of as many workers saved its own; else the chief's.
  std::string read_bytes(const std::string& path, const TrackedState& state) const;
  void check_fits(const std::string& name, DType dtype, const Shape& shape) const;

  const CheckpointFiles files_;
  std::mutex mutex_;
  std::set<std::string> unused_;   // guarded by mutex_, as all below
  std::set<std::string> missing_;  // paths of objects that the checkpoint does not have
  bool quiet_ = false;
};

}  // namespace cohort::internal
