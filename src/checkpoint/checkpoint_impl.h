#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/restore_state.h"
#include "checkpoint/save_queue.h"
#include "cohort/checkpoint.h"

namespace cohort::internal {

// Objects by name. See Checkpoint.
class CheckpointImpl {
 public:
  explicit CheckpointImpl(const CheckpointOptions& options) : queue_(options.asynchronous) {}

  void track(const std::string& name, const Trackable& object);
  // The tracked objects, below `path` unless it is empty.
  void collect(const std::string& path, TrackedState& state) const;
  bool contains(const CheckpointImpl& other) const;

  // Takes the values now and writes them to `prefix`; then calls `written` on the thread that
  // wrote. A `number` becomes the number of the checkpoint, and the save is counted. `site` is the
  // line that asked for the save.
  void save(const std::string& prefix, std::optional<int64_t> number, Site site,
            const std::function<void()>& written);
  std::shared_ptr<RestoreState> restore(std::string_view prefix);
  static Trackable trackable(std::shared_ptr<const Tracked> tracked) {
    return Trackable(std::move(tracked));
  }
  RestoreStatus status_of(std::shared_ptr<RestoreState> state) const {
    return RestoreStatus(std::move(state));
  }
  int64_t save_counter() const;
  void set_save_counter(int64_t count);
  SaveQueue& queue() { return queue_; }

 private:
  struct Item {
    std::string name;
    std::shared_ptr<const Tracked> tracked;
  };
  std::vector<Item> items() const;
  TrackedState collect_all() const;

  mutable std::mutex mutex_;
  std::vector<Item> items_;                  // guarded by mutex_, as all below
  std::shared_ptr<RestoreState> restoring_;  // for objects that are yet to be tracked
  int64_t save_counter_ = 0;
  SaveQueue queue_;  // last: it ends first
};

// The key of the number of saves in a checkpoint.
inline constexpr const char* kSaveCounter = "save_counter";

}  // namespace cohort::internal
