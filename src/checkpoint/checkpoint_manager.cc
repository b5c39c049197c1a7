#include "base/log.h"
#include "base/raise.h"
#include "checkpoint/checkpoint_impl.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/saving.h"
#include "cohort/checkpoint.h"

namespace cohort {
namespace internal {
namespace {

constexpr const char* kStateFile = "checkpoint";

CheckpointManagerOptions checked(const CheckpointManagerOptions& options) {
  const std::string& name = options.checkpoint_name;
  if (!name.empty() && name != "." && name != ".." && file_name_of(name) == name) return options;
  raise(Code::InvalidArgument,
        "[CheckpointManager] checkpoint_name '{}' must be a name without a directory", name);
}

}  // namespace

// The list of the directory's checkpoints. A save that is being written holds it, and with it
// nothing that waits for the save.
class RetentionState {
 public:
  RetentionState(const std::string& directory, const CheckpointManagerOptions& options)
      : list_("CheckpointManager", {.max_to_keep = options.max_to_keep,
                                    .keep_every_n_hours = options.keep_checkpoint_every_n_hours}) {
    if (const auto state = get_checkpoint_state(directory, kStateFile)) list_.recover(*state);
  }

  // Lists the checkpoint, and deletes those that are one too many.
  void add(const std::string& prefix) {
    const CheckpointList::Change change = list_.add(prefix);
    write_state_file(directory_of(prefix), kStateFile, change.state);
    for (const std::string& dropped : change.dropped) {
      const Status status = capture_status([&] { remove_checkpoint(dropped); });
      if (status.ok()) continue;
      log_warning("[CheckpointManager] '{}' stays: {}", dropped, status.to_string());
    }
  }

  std::vector<std::string> prefixes() const { return list_.prefixes(); }

 private:
  CheckpointList list_;
};

class CheckpointManagerImpl {
 public:
  CheckpointManagerImpl(const Checkpoint& checkpoint, std::string directory,
                        const CheckpointManagerOptions& options)
      : checkpoint_(checkpoint),
        directory_(std::move(directory)),
        name_(checked(options).checkpoint_name),
        books_(std::make_shared<RetentionState>(directory_, options)) {
    if (directory_.empty())
      raise(Code::InvalidArgument, "[CheckpointManager] the directory is empty");
  }

  std::string save(std::optional<int64_t> given, Site site) {
    CheckpointImpl& impl = *checkpoint_.impl_;
    const int64_t number = given.value_or(impl.save_counter() + 1);
    const std::string prefix =
        full_prefix("CheckpointManager", in_directory(directory_, name_), number);
    impl.save(prefix, number, site, [books = books_, prefix] { books->add(prefix); });
    return prefix;
  }

  std::optional<std::string> latest() const {
    checkpoint_.impl_->queue().wait();
    return cohort::latest_checkpoint(directory_, {.state_file = kStateFile});
  }

  std::optional<std::string> restore_latest() {
    std::optional<std::string> prefix = latest();
    if (prefix) checkpoint_.restore(*prefix);
    return prefix;
  }

  std::vector<std::string> checkpoints() const { return books_->prefixes(); }
  const std::string& directory() const { return directory_; }

 private:
  Checkpoint checkpoint_;
  const std::string directory_;
  const std::string name_;
  const std::shared_ptr<RetentionState> books_;
};

}  // namespace internal

CheckpointManager::CheckpointManager(const Checkpoint& checkpoint, std::string directory,
                                     const CheckpointManagerOptions& options)
    : impl_(std::make_shared<internal::CheckpointManagerImpl>(checkpoint, std::move(directory),
                                                              options)) {}

std::string CheckpointManager::save(std::optional<int64_t> number, Site site) {
  return impl_->save(number, site);
}

std::optional<std::string> CheckpointManager::latest_checkpoint() const { return impl_->latest(); }
std::vector<std::string> CheckpointManager::checkpoints() const { return impl_->checkpoints(); }

std::optional<std::string> CheckpointManager::restore_latest() { return impl_->restore_latest(); }
const std::string& CheckpointManager::directory() const { return impl_->directory(); }

}  // namespace cohort
