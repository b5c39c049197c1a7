#include "cohort/checkpoint.h"

#include <algorithm>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "base/text.h"
#include "base/worker_outcomes.h"
#include "checkpoint/checkpoint_impl.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/saving.h"
#include "cohort/strategy.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kDeepest = 64;

struct TrackedCheckpoint : Tracked {
  explicit TrackedCheckpoint(std::shared_ptr<const CheckpointImpl> inner)
      : checkpoint(std::move(inner)) {}
  void collect(const std::string& path, TrackedState& state) const override {
    checkpoint->collect(path, state);
  }
  bool contains(const CheckpointImpl& other) const override {
    return checkpoint.get() == &other || checkpoint->contains(other);
  }
  const std::shared_ptr<const CheckpointImpl> checkpoint;
};

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
  int64_t bytes() const {
    KeyedTensors tensors;
    for (size_t i = 0; i < items.size(); ++i) tensors[items[i].name] = values[i];
    return total_bytes(tensors);
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

// What each worker says of that checkpoint, by worker. Workers compare its name without the
// directory, which may be each worker's own: the chief alone writes.
std::vector<std::string> texts_of_all(StrategyExtended* strategy, const std::string& own,
                                      const std::string& prefix, std::string_view what) {
  if (strategy == nullptr) return {own};
  const std::string name = prefix.substr(prefix.find_last_of('/') + 1);
  return strategy->gather_from_workers(own, fmt::format("checkpoint '{}': {}", name, what));
}

// The program's own bytes as they are now. Several workers save those of each, since positions in
// the data differ, and of common bytes the chief's. Throws on all workers what one of them met
// before or meets here.
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
          "[Checkpoint] worker 0 tracks {} objects that are bytes, and worker {} tracks {}; track "
          "the same on all workers",
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
  write_state_file(directory, "checkpoint", state);
}

}  // namespace

void CheckpointImpl::track(const std::string& name, const Trackable& object) {
  if (name.empty() || name.find('/') != std::string::npos || name == kSaveCounter) {
    raise(Code::InvalidArgument,
          "[Checkpoint] '{}' cannot be an object's name: names are not empty, have no '/', and are "
          "not '{}'",
          name, kSaveCounter);
  }
  if (object.tracked_->contains(*this)) {
    raise(Code::InvalidArgument, "[Checkpoint] '{}' would put the checkpoint inside of itself",
          name);
  }
  std::shared_ptr<RestoreState> restoring;
  {
    const std::lock_guard lock(mutex_);
    for (const Item& item : items_) {
      if (item.name != name) continue;
      raise(Code::AlreadyExists, "[Checkpoint] there is an object '{}' already", name);
    }
    items_.push_back({name, object.tracked_});
    restoring = restoring_;
  }
  const PlainDispatch plain;
  if (restoring) restoring->apply(collect_all());
}

void CheckpointImpl::collect(const std::string& path, TrackedState& state) const {
  if (++state.depth > kDeepest) {
    raise(Code::InvalidArgument, "[Checkpoint] '{}' is more than {} levels deep", path, kDeepest);
  }
  for (const Item& item : items()) {
    item.tracked->collect(path.empty() ? item.name : path + "/" + item.name, state);
  }
  --state.depth;
}

bool CheckpointImpl::contains(const CheckpointImpl& other) const {
  return std::ranges::any_of(items(),
                             [&](const Item& item) { return item.tracked->contains(other); });
}

std::vector<CheckpointImpl::Item> CheckpointImpl::items() const {
  const std::lock_guard lock(mutex_);
  return items_;
}

TrackedState CheckpointImpl::collect_all() const {
  TrackedState state;
  collect("", state);
  state.add_slots();
  return state;
}

// A failure on one worker must not keep it from the calls that all workers make together: it is
// kept until the workers exchange their outcomes.
void CheckpointImpl::save(const std::string& prefix, std::optional<int64_t> number, Site site,
                          const std::function<void()>& written) {
  const PlainDispatch plain;
  const CollectivePurpose purpose("checkpoint", site);
  const std::exception_ptr before = capture_exception([&] { queue_.wait(); });
  const int64_t counter = save_counter() + (number ? 1 : 0);
  const TrackedState state = collect_all();
  StrategyExtended* const strategy = state.strategy();
  Snapshot snapshot = snapshot_of(state);
  add_bytes(state, strategy, prefix, before, snapshot);
  snapshot.add(kSaveCounter, Tensor::from(std::vector<int64_t>{counter}, Shape{}));
  const int64_t bytes = snapshot.bytes();
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
}

std::shared_ptr<RestoreState> CheckpointImpl::restore(std::string_view prefix) {
  const PlainDispatch plain;
  queue_.wait();
  auto state = std::make_shared<RestoreState>(prefix);
  state->apply(collect_all());
  const std::lock_guard lock(mutex_);
  restoring_ = state;
  return state;
}

int64_t CheckpointImpl::save_counter() const {
  const std::lock_guard lock(mutex_);
  return save_counter_;
}

void CheckpointImpl::set_save_counter(int64_t count) {
  const std::lock_guard lock(mutex_);
  save_counter_ = count;
}

}  // namespace internal

using internal::CheckpointImpl;

Trackable::Trackable(const Checkpoint& part)
    : tracked_(std::make_shared<internal::TrackedCheckpoint>(part.impl_)) {}

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
void Checkpoint::wait() { impl_->queue().wait(); }
SaveProgress Checkpoint::progress() const { return impl_->queue().progress(); }

}  // namespace cohort
