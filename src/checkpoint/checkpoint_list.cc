#include "checkpoint/checkpoint_list.h"

#include <algorithm>

#include "base/raise.h"
#include "checkpoint/contents.h"
#include "checkpoint/durable_file.h"

namespace cohort::internal {
namespace {

std::chrono::system_clock::duration to_duration(std::string_view operation, double hours) {
  constexpr double kMaxHours = 1e6;  // more than any clock counts
  if (!(hours > 0)) {
    raise(Code::InvalidArgument, "[{}] keep_checkpoint_every_n_hours must be positive, got {}",
          operation, hours);
  }
  return std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::duration<double, std::ratio<3600>>(std::min(hours, kMaxHours)));
}

RetentionOptions checked(std::string_view operation, const RetentionOptions& options) {
  if (options.max_to_keep >= 0) return options;
  raise(Code::InvalidArgument, "[{}] max_to_keep must be 0 (all) or more, got {}", operation,
        options.max_to_keep);
}

}  // namespace

CheckpointList::CheckpointList(std::string_view operation, const RetentionOptions& options)
    : options_(checked(operation, options)),
      keep_each_(to_duration(operation, options.keep_every_n_hours)),
      next_kept_(options_.now() + keep_each_) {}

CheckpointList::Change CheckpointList::add(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  const std::string path = resolved_path(prefix);
  std::erase_if(entries_, [&](const Entry& entry) { return resolved_path(entry.prefix) == path; });
  entries_.push_back({prefix, options_.now()});
  Change change{.state = {.latest = prefix, .all = {}, .saved_at = {}}, .dropped = drop_oldest()};
  for (const Entry& entry : entries_) {
    change.state.all.push_back(entry.prefix);
    change.state.saved_at.push_back(entry.saved_at);
  }
  return change;
}

std::vector<std::string> CheckpointList::drop_oldest() {
  std::vector<std::string> dropped;
  if (options_.max_to_keep == 0) {
    entries_.erase(entries_.begin(), entries_.end() - 1);
    return dropped;
  }
  while (entries_.size() > static_cast<size_t>(options_.max_to_keep)) {
    const Entry oldest = entries_.front();
    entries_.erase(entries_.begin());
    if (oldest.saved_at > next_kept_) {
      next_kept_ += keep_each_;
    } else {
      dropped.push_back(oldest.prefix);
    }
  }
  return dropped;
}

std::vector<std::string> CheckpointList::prefixes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> prefixes;
  for (const Entry& entry : entries_) prefixes.push_back(entry.prefix);
  return prefixes;
}

bool CheckpointList::empty() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty();
}

void CheckpointList::recover(const std::vector<std::string>& prefixes) {
  recover(CheckpointState{.latest = {}, .all = prefixes, .saved_at = {}});
}

void CheckpointList::recover(const CheckpointState& state) {
  std::vector<Entry> found;
  for (size_t i = 0; i < state.all.size(); ++i) {
    Time saved_at = i < state.saved_at.size() ? state.saved_at[i] : Time();
    const Status status = capture_status([&] {
      const CheckpointFiles files(state.all[i]);
      if (saved_at == Time()) saved_at = from_ms(files.manifest().saved_at_ms);
    });
    if (status.ok()) found.push_back({state.all[i], saved_at});
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(found);
}

}  // namespace cohort::internal
