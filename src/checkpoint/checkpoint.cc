#include "cohort/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/collective_purpose.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/text.h"
#include "base/worker_outcomes.h"
#include "checkpoint/background_saving.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/saving.h"
#include "checkpoint/tracked_state.h"
#include "cohort/internal/common_bytes.h"
#include "cohort/strategy_extended.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kDeepest = 64;
constexpr const char* kSaveCounter = "save_counter";  // the key of the number of saves
constexpr const char* kStateFile = "checkpoint";

// Tensors to be saved, in the form that saving wants.
struct Snapshot {
  std::vector<SaveItem> items;
  std::vector<Tensor> values;
  void add(const std::string& name, Tensor value) {
    items.push_back({.name = name, .dtype = value.dtype()});
    values.push_back(std::move(value));
  }
  // Copies a value if a torch program may go on writing to it.
  void detach_from_torch() {
    for (Tensor& value : values) value = constant_of(value);
  }
};

void check_exists_at_once(const std::string& path, const VariableImpl& variable) {
  if (!variable.first_copy().handle.is_symbolic()) return;
  raise(Code::FailedPrecondition,
        "[Checkpoint] '{}' is a variable of a graph, whose value is in sessions; use a Saver",
        path);
}

// The variables' values as they are now. A variable without one is left out.
Snapshot snapshot_of(const TrackedState& state) {
  Snapshot snapshot;
  for (const auto& [path, variable] : state.variables) {
    const VariableImpl& impl = *VariableAccess::impl(variable);
    check_exists_at_once(path, impl);
    if (impl.is_initialized()) snapshot.add(path, impl.value_across());
  }
  return snapshot;
}

// When several workers save together the chief writes. All workers read the values, because some
// values combine those of all workers.
bool writes_here(const StrategyExtended* strategy) {
  return strategy == nullptr || strategy->should_checkpoint();
}

// Adds the program's own bytes, as they are now, to the snapshot. With several workers the snapshot
// has the bytes of each worker, because positions in the data differ; of common bytes it has the
// chief's. If a worker fails here, or has failed with `before`, all workers throw that error.
void add_bytes(const TrackedState& state, StrategyExtended* strategy, const std::string& prefix,
               const std::exception_ptr& before, Snapshot& snapshot) {
  std::vector<std::string> own;
  const std::exception_ptr thrown = capture_exception([&] {
    if (before != nullptr) std::rethrow_exception(before);
    for (const auto& [path, bytes] : state.bytes) {
      own.push_back(bytes.is_common && !writes_here(strategy) ? "" : bytes.save());
    }
  });
  std::vector<std::string> outcomes;
  std::vector<std::vector<std::string>> bytes;
  for (const std::string& text :
       texts_of_all(strategy, join_texts({outcome_text(thrown), join_texts(own)}), prefix,
                    "the bytes of each worker")) {
    const std::vector<std::string> parts = split_texts(text);
    outcomes.push_back(parts.at(0));
    bytes.push_back(split_texts(parts.at(1)));
  }
  throw_first_failure("Checkpoint", thrown, outcomes);
  for (size_t worker = 1; worker < bytes.size(); ++worker) {
    if (bytes[worker].size() == bytes[0].size()) continue;
    raise(Code::InvalidArgument,
          "[Checkpoint] worker 0 tracks {} objects made of bytes, but worker {} tracks {}; track "
          "the same objects on each worker",
          bytes[0].size(), worker, bytes[worker].size());
  }
  size_t index = 0;
  for (const auto& [path, tracked] : state.bytes) {
    std::vector<std::string> of_workers;
    for (const auto& worker : bytes) of_workers.push_back(worker.at(index));
    if (tracked.is_common) of_workers.resize(1);
    ++index;
    snapshot.add(path, of_workers.size() == 1 ? Tensor(of_workers[0]) : Tensor::from(of_workers));
  }
}

// Appends to the list of a directory that no Saver or manager keeps a list of.
void list_checkpoint(const std::string& prefix) {
  const std::string directory = directory_of(prefix);
  CheckpointState state;
  (void)capture_status(
      [&] { state = get_checkpoint_state(directory).value_or(CheckpointState{}); });
  const std::string path = resolved_path(prefix);
  const auto same = std::ranges::find_if(
      state.all, [&](const std::string& other) { return resolved_path(other) == path; });
  if (same != state.all.end()) {
    state.saved_at.erase(state.saved_at.begin() + (same - state.all.begin()));
    state.all.erase(same);
  }
  state.latest = prefix;
  state.all.push_back(prefix);
  state.saved_at.push_back(std::chrono::system_clock::now());
  write_state_file(directory, kStateFile, state);
}

std::string checked_name(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && file_name_of(name) == name) return name;
  raise(Code::InvalidArgument,
        "[CheckpointManager] checkpoint_name '{}' must be a name without a directory", name);
}

// The checkpoints that the directory's state file lists.
std::shared_ptr<CheckpointList> recovered_list(const std::string& directory,
                                               const CheckpointManagerOptions& options) {
  auto list = std::make_shared<CheckpointList>(
      "CheckpointManager",
      RetentionOptions{.max_to_keep = options.max_to_keep,
                       .keep_checkpoint_every = options.keep_checkpoint_every});
  if (const auto state = get_checkpoint_state(directory, kStateFile)) list->recover(*state);
  return list;
}

}  // namespace

// Objects by name. See Checkpoint.
class CheckpointImpl {
 public:
  explicit CheckpointImpl(const CheckpointOptions& options) : queue_(options.asynchronous) {}

  void track(const std::string& name, const Trackable& object) {
    if (name.empty() || name.find('/') != std::string::npos || name == kSaveCounter) {
      raise(
          Code::InvalidArgument,
          "[Checkpoint] '{}' cannot be an object's name: a name must not be empty, contain '/' or "
          "be '{}'",
          name, kSaveCounter);
    }
    const CheckpointImpl* const inner = object.tracked_->checkpoint.get();
    if (inner != nullptr && inner->contains(*this)) {
      raise(Code::InvalidArgument, "[Checkpoint] '{}' would put the checkpoint inside itself",
            name);
    }
    std::shared_ptr<RestoreState> restoring;
    {
      const std::lock_guard lock(mutex_);
      for (const Item& item : items_) {
        if (item.name != name) continue;
        raise(Code::AlreadyExists,
              "[Checkpoint] an object named '{}' is tracked already; choose another name", name);
      }
      items_.push_back({name, object.tracked_});
      restoring = restoring_;
    }
    const PlainDispatch plain;
    if (restoring) restoring->apply(collect_all());
  }

  // The tracked objects, below `path` unless it is empty.
  void collect(const std::string& path, TrackedState& state) const {
    if (++state.depth > kDeepest) {
      raise(Code::InvalidArgument, "[Checkpoint] '{}' is more than {} levels deep", path, kDeepest);
    }
    for (const Item& item : items()) {
      const std::string own = path.empty() ? item.name : path + "/" + item.name;
      if (item.tracked->checkpoint == nullptr) state.objects.insert(own);
      item.tracked->collect(own, state);
    }
    --state.depth;
  }

  // Whether `other` is this checkpoint, or is tracked by this checkpoint.
  bool contains(const CheckpointImpl& other) const {
    return this == &other || std::ranges::any_of(items(), [&](const Item& item) {
             const CheckpointImpl* const inner = item.tracked->checkpoint.get();
             return inner != nullptr && inner->contains(other);
           });
  }

  // Takes the values now and writes them to `prefix`; then calls `written` on the thread that
  // wrote. A `number` becomes the number of the checkpoint, and the save is counted. `site` is the
  // line that asked for the save.
  void save(const std::string& prefix, std::optional<int64_t> number, Site site,
            const std::function<void()>& written);

  std::shared_ptr<RestoreState> restore(std::string_view prefix) {
    const PlainDispatch plain;
    queue_.wait();
    auto state = std::make_shared<RestoreState>(prefix);
    state->apply(collect_all());
    const std::lock_guard lock(mutex_);
    restoring_ = state;
    return state;
  }

  static Trackable trackable(std::shared_ptr<const Tracked> tracked) {
    return Trackable(std::move(tracked));
  }
  static nn::NamedVariables variables_of(const Trackable& object) {
    TrackedState state;
    object.tracked_->collect("", state);
    return {state.variables.begin(), state.variables.end()};
  }
  RestoreStatus status_of(std::shared_ptr<RestoreState> state) const {
    return RestoreStatus(std::move(state));
  }

  int64_t save_counter() const { return save_counter_; }
  void set_save_counter(int64_t count) { save_counter_ = count; }
  SaveQueue& queue() { return queue_; }

 private:
  struct Item {
    std::string name;
    std::shared_ptr<const Tracked> tracked;
  };

  std::vector<Item> items() const {
    const std::lock_guard lock(mutex_);
    return items_;
  }

  TrackedState collect_all() const {
    TrackedState state;
    collect("", state);
    state.add_slots();
    return state;
  }

  mutable Mutex mutex_;
  std::vector<Item> items_;                  // guarded by mutex_, as the next
  std::shared_ptr<RestoreState> restoring_;  // for objects that are yet to be tracked
  std::atomic<int64_t> save_counter_ = 0;
  SaveQueue queue_;  // last: it ends first
};

// A failure on one worker must not keep it from the calls that all workers make together: it is
// kept until the workers exchange their outcomes.
void CheckpointImpl::save(const std::string& prefix, std::optional<int64_t> number, Site site,
                          const std::function<void()>& written) {
  const PlainDispatch plain;
  const CollectivePurpose purpose("checkpoint", site);
  const std::exception_ptr before = queue_.await_before();  // add_bytes() tells all workers
  const int64_t counter = save_counter() + (number ? 1 : 0);
  const TrackedState state = collect_all();
  StrategyExtended* const strategy = state.strategy();
  Snapshot snapshot = snapshot_of(state);
  add_bytes(state, strategy, prefix, before, snapshot);
  snapshot.add(kSaveCounter, Tensor::from(std::vector<int64_t>{counter}, Shape{}));
  const int64_t bytes = total_bytes(snapshot.values);
  const std::exception_ptr thrown = capture_exception([&] {
    if (!writes_here(strategy)) return;
    if (queue_.is_asynchronous()) snapshot.detach_from_torch();
    queue_.run(prefix, bytes, [=, made = std::move(snapshot)](BytesWritten& progress) {
      write_checkpoint(prefix, number, made.items, made.values, &progress);
      if (written) written();
    });
  });
  throw_first_failure(
      "Checkpoint", thrown,
      texts_of_all(strategy, outcome_text(thrown), prefix, "whether the chief wrote it"));
  set_save_counter(counter);
  queue_.note_unawaited(prefix, strategy);
}

class CheckpointManagerImpl {
 public:
  CheckpointManagerImpl(const Checkpoint& tracked, std::string path,
                        const CheckpointManagerOptions& options)
      : checkpoint(tracked),
        saves(*checkpoint.impl_),
        directory(std::move(path)),
        name(checked_name(options.checkpoint_name)),
        list(recovered_list(directory, options)) {
    if (directory.empty()) {
      raise(Code::InvalidArgument,
            "[CheckpointManager] the name of the directory is empty; expected a directory for the "
            "checkpoints");
    }
  }

  Checkpoint checkpoint;
  CheckpointImpl& saves;
  const std::string directory;
  const std::string name;
  // A save that is being written holds the list, and with it nothing that waits for the save.
  const std::shared_ptr<CheckpointList> list;
};

}  // namespace internal

using internal::CheckpointImpl;

Trackable::Trackable(const Checkpoint& part)
    : Trackable(std::make_shared<internal::Tracked>(internal::Tracked{
          [inner = part.impl_](const std::string& path, internal::TrackedState& state) {
            inner->collect(path, state);
          },
          part.impl_})) {}

Trackable internal::common_bytes(Trackable::SaveBytes save, Trackable::RestoreBytes restore) {
  return CheckpointImpl::trackable(
      tracked_bytes({std::move(save), std::move(restore), /*is_common=*/true}));
}

nn::NamedVariables internal::tracked_variables(const Checkpoint& checkpoint) {
  return CheckpointImpl::variables_of(checkpoint);
}

Checkpoint::Checkpoint(std::initializer_list<Item> items, const CheckpointOptions& options)
    : Checkpoint(std::vector<Item>(items), options) {}

Checkpoint::Checkpoint(const std::vector<Item>& items, const CheckpointOptions& options)
    : impl_(std::make_shared<CheckpointImpl>(options)) {
  for (const auto& [name, object] : items) impl_->track(name, object);
}

Checkpoint& Checkpoint::track(const std::string& name, const Trackable& object) {
  impl_->track(name, object);
  return *this;
}

std::string Checkpoint::save(std::string_view prefix, Site site) {
  const int64_t number = impl_->save_counter() + 1;
  const std::string target = internal::full_prefix("Checkpoint", prefix, number);
  impl_->save(target, number, site, [target] { internal::list_checkpoint(target); });
  return target;
}

std::string Checkpoint::write(std::string_view prefix, Site site) {
  const std::string target = internal::full_prefix("Checkpoint", prefix, std::nullopt);
  impl_->save(target, std::nullopt, site, nullptr);
  return target;
}

RestoreStatus Checkpoint::restore(std::string_view prefix) {
  const auto state = impl_->restore(prefix);
  if (const auto counter = state->take(internal::kSaveCounter)) {
    impl_->set_save_counter(counter->to<int64_t>());
  }
  return impl_->status_of(state);
}

RestoreStatus Checkpoint::read(std::string_view prefix) {
  const auto state = impl_->restore(prefix);
  state->take(internal::kSaveCounter);
  return impl_->status_of(state);
}

int64_t Checkpoint::save_counter() const { return impl_->save_counter(); }
void Checkpoint::wait(Site site) { impl_->queue().wait_on_all_workers(site); }
SaveProgress Checkpoint::progress() const { return impl_->queue().progress(); }

CheckpointManager::CheckpointManager(const Checkpoint& checkpoint, std::string directory,
                                     const CheckpointManagerOptions& options)
    : impl_(std::make_shared<internal::CheckpointManagerImpl>(checkpoint, std::move(directory),
                                                              options)) {}

std::string CheckpointManager::save(std::optional<int64_t> number, Site site) {
  const int64_t chosen = number.value_or(impl_->saves.save_counter() + 1);
  const std::string prefix = internal::full_prefix(
      "CheckpointManager", internal::in_directory(impl_->directory, impl_->name), chosen);
  impl_->saves.save(prefix, chosen, site, [list = impl_->list, prefix] {
    list->keep(prefix, internal::kStateFile, remove_checkpoint);
  });
  return prefix;
}

std::optional<std::string> CheckpointManager::latest_checkpoint() const {
  impl_->saves.queue().wait();
  return cohort::latest_checkpoint(impl_->directory, {.state_file = internal::kStateFile});
}

std::vector<std::string> CheckpointManager::checkpoints() const { return impl_->list->prefixes(); }

std::optional<std::string> CheckpointManager::restore_latest() {
  std::optional<std::string> prefix = latest_checkpoint();
  if (prefix) impl_->checkpoint.restore(*prefix);
  return prefix;
}

const std::string& CheckpointManager::directory() const { return impl_->directory; }

}  // namespace cohort
