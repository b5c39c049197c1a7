#pragma once

#include <mutex>
#include <set>
#include <string>

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/tracked_state.h"

namespace cohort::internal {

// A restore under way: objects may be made after the checkpoint was read. At its end it warns of
// the values that no object used. Thread-safe.
struct RestoreState {
 public:
  explicit RestoreState(std::string_view prefix);
  ~RestoreState();

  // Gives the objects in `state` the values that were not given out before. Throws NotFound and
  // InvalidArgument before anything changes.
  void apply(const TrackedState& state);
  // A tensor that belongs to no object.
  std::optional<Tensor> take(const std::string& name);

  void assert_existing_objects_matched();
  void assert_consumed();
  void expect_partial();

 private:
  // The values for objects, read before any of them changes.
  struct Values;
  Values read_values(const TrackedState& state);
  // The value of a slot that did not exist yet when its optimizer was saved.
  std::optional<double> beginning_of(const TrackedState& state, const std::string& path) const;
  Shape bytes_shape(const std::string& path) const;
  // The bytes of this worker if each of as many workers saved its own, otherwise those of the
  // chief.
  std::string read_bytes(const std::string& path, const TrackedState& state) const;
  void check_fits(const std::string& name, DType dtype, const Shape& shape) const;

  const CheckpointFiles files_;
  std::mutex mutex_;
  std::set<std::string> unused_;   // guarded by mutex_, as all below
  std::set<std::string> missing_;  // paths of objects that the checkpoint does not have
  bool quiet_ = false;
};

}  // namespace cohort::internal
