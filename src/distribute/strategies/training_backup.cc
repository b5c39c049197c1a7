#include "distribute/strategies/training_backup.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/timeline.h"
#include "base/worker_outcomes.h"
#include "cohort/internal/common_bytes.h"
#include "cohort/internal/torch_random.h"
#include "cohort/random.h"
#include "distribute/strategies/worker_strategies.h"
#include "distribute/variables/variable_kinds.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

std::string text_of(const Tensor& numbers) {
  return fmt::format("{}", fmt::join(numbers.to_vector<int64_t>(), " "));
}

Tensor numbers_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; words >> number;) numbers.push_back(number);
  return Tensor::from(std::move(numbers));
}

// Null for a variable whose copies are equal, or that has one copy.
std::shared_ptr<SyncOnReadVariable> of_replicas(const Variable& variable) {
  const auto found = std::dynamic_pointer_cast<SyncOnReadVariable>(VariableAccess::impl(variable));
  const bool differs = found != nullptr && found->owner().num_replicas_in_sync() > 1 &&
                       is_numeric(found->first_copy().dtype);
  return differs && found->is_initialized() ? found : nullptr;
}

std::string elements_of(const Tensor& value) {
  return {reinterpret_cast<const char*>(element_bytes(value)),
          static_cast<size_t>(bytes_of(value))};
}

// A tensor like `like` with the saved elements; undefined if they are of another shape.
Tensor value_of(const std::string& bytes, const Tensor& like) {
  if (static_cast<int64_t>(bytes.size()) != bytes_of(like)) return {};
  const WritableTensor value = allocate_tensor(like.dtype(), like.shape());
  std::memcpy(value.data, bytes.data(), bytes.size());
  return value.tensor;
}

void restore_copies(SyncOnReadVariable& variable, const std::vector<std::string>& saved) {
  if (saved.size() != variable.copies().size()) return;
  std::vector<Tensor> values;
  for (size_t i = 0; i < saved.size(); ++i) {
    values.push_back(value_of(saved[i], read_copy(variable.copies()[i])));
    if (!values.back().defined()) return;
  }
  variable.restore_copies(values);
}

// What a checkpoint does not have of variables that each replica writes alone: their copies on this
// worker, where the checkpoint has one value for all copies.
std::string save_replica_copies(const nn::NamedVariables& variables) {
  std::vector<std::string> all;
  for (const auto& [path, variable] : variables) {
    const auto found = of_replicas(variable);
    if (found == nullptr) continue;
    std::vector<std::string> values;
    for (const Variable& each : found->copies()) values.push_back(elements_of(read_copy(each)));
    all.push_back(path);
    all.push_back(join_texts(values));
  }
  return join_texts(all);
}

// Sets the copies that were saved. Called after the variables are restored. Leaves variables alone
// that had another number of copies here.
void restore_replica_copies(const nn::NamedVariables& variables, const std::string& saved) {
  const std::vector<std::string> all = split_texts(saved);
  std::map<std::string, std::string> values;
  for (size_t i = 0; i + 1 < all.size(); i += 2) values[all[i]] = all[i + 1];
  for (const auto& [path, variable] : variables) {
    const auto found = of_replicas(variable);
    const auto known = values.find(path);
    if (found != nullptr && known != values.end()) {
      restore_copies(*found, split_texts(known->second));
    }
  }
}

const BackupOptions& checked(const BackupOptions& options) {
  if (options.directory.empty())
    raise(Code::InvalidArgument, "[BackupAndRestore] .directory must be given");
  if (options.every_steps < 1 || options.max_to_keep < 1) {
    raise(Code::InvalidArgument,
          "[BackupAndRestore] every_steps and max_to_keep must be at least 1, got {} and {}",
          options.every_steps, options.max_to_keep);
  }
  return options;
}

}  // namespace

TrainingBackup::TrainingBackup(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                               const BackupOptions& options)
    : strategy_(strategy),
      options_(checked(options)),
      checkpoint_(objects),
      manager_(checkpoint_, options_.directory,
               {.max_to_keep = options_.max_to_keep, .checkpoint_name = "backup"}) {
  checkpoint_.track("backup_and_restore", Trackable::bytes([this] { return join_texts(saved_); },
                                                           [this](const std::string& all) {
                                                             saved_ = split_texts(all);
                                                           }));
}

std::vector<std::string> TrainingBackup::texts_of_all(const std::string& own,
                                                      const std::string& what) const {
  return strategy_.extended().gather_from_workers(own, "backup: " + what);
}

void TrainingBackup::share(const std::string& what, const std::function<void()>& part) const {
  const std::exception_ptr thrown = capture_exception(part);
  throw_first_failure("Backup", thrown, texts_of_all(outcome_text(thrown), what));
}

void TrainingBackup::begin(const FindPlace& find) {
  save(find);
  if (joint_workers(strategy_.extended()) != nullptr) restore();
}

void TrainingBackup::save(const FindPlace& find) {
  const TimelineSpan span("backup", "backup");
  TrainingPlace place;
  share("whether the place was found", [&] { place = find(); });
  const std::string state =
      join_texts({text_of(random::default_generator().state()), torch_random_state(),
                  save_replica_copies(tracked_variables(checkpoint_))});
  std::vector<std::string> all{fmt::format("{} {} {:d} {}", place.steps, place.part, place.ended,
                                           strategy_.num_replicas_in_sync())};
  for (std::string& text : texts_of_all(state, "own state")) all.push_back(std::move(text));
  for (std::string& text : texts_of_all(place.position, "positions"))
    all.push_back(std::move(text));
  saved_ = std::move(all);
  const auto scope = strategy_.scope();  // also objects without variables are saved by the chief
  manager_.save(place.steps);
  if (auto* workers = joint_workers(strategy_.extended())) workers->end_newcomer();
}

std::string TrainingBackup::find_latest() {
  std::string latest;
  share("whether the directory was read", [&] {
    if (gives_up()) throw Error(last_loss_);
    if (!strategy_.extended().should_checkpoint()) return;
    if (!lock_) lock_.emplace(options_.directory);
    latest = manager_.latest_checkpoint().value_or("");
  });
  return texts_of_all(latest, "the latest one")[0];
}

std::optional<TrainingPlace> TrainingBackup::restore() {
  const std::string latest = find_latest();
  if (latest.empty()) return std::nullopt;
  TrainingPlace place;
  share("whether it was restored", [&] { place = take_own(latest); });
  restored_ = latest;
  if (auto* workers = joint_workers(strategy_.extended())) workers->end_newcomer();
  return place;
}

namespace {

std::string describe(size_t workers, int64_t replicas) {
  return fmt::format("{} worker{} with {} replica{}", workers, workers == 1 ? "" : "s", replicas,
                     replicas == 1 ? " in all" : "s in all");
}

}  // namespace

void TrainingBackup::check_origin(const std::string& prefix, size_t count, int64_t replicas) const {
  auto* const workers = joint_workers(strategy_.extended());
  const auto own = static_cast<size_t>(workers == nullptr ? 0 : workers->worker_id());
  const auto count_now = static_cast<size_t>(workers == nullptr ? 1 : workers->num_workers());
  const int64_t replicas_now = strategy_.num_replicas_in_sync();
  // At the end of an epoch a Trainer has no position, and then needs no state of other workers.
  if (own < count && saved_[1 + count + own].empty()) return;
  if (count == count_now && (replicas == replicas_now || replicas == 0)) return;
  raise(Code::InvalidArgument,
        "[BackupAndRestore] the backup '{}' was saved by {}, and this run has {}; start as many "
        "as before, or choose another directory for a new training",
        prefix, describe(count, replicas), describe(count_now, replicas_now));
}

TrainingPlace TrainingBackup::take_own(const std::string& prefix) {
  const auto scope = strategy_.scope();
  checkpoint_.restore(prefix).assert_variables_exist();
  auto* const workers = joint_workers(strategy_.extended());
  const auto own = static_cast<size_t>(workers == nullptr ? 0 : workers->worker_id());
  const size_t count = saved_.empty() ? 0 : (saved_.size() - 1) / 2;
  if (count == 0) {
    raise(Code::InvalidArgument,
          "[BackupAndRestore] '{}' is a checkpoint, but not a backup; choose another directory",
          prefix);
  }
  TrainingPlace place;
  int64_t replicas = 0;  // unknown
  std::istringstream numbers(saved_[0]);
  // A backup of an earlier version has the steps only.
  numbers >> place.steps >> place.part >> place.ended >> replicas;
  check_origin(prefix, count, replicas);
  place.position = saved_[1 + count + own];
  const std::vector<std::string> state = split_texts(saved_[1 + own]);
  random::default_generator().restore(numbers_of(state.at(0)));
  restore_torch_random(state.at(1));
  // Of other workers' copies nothing is known, so the values that the checkpoint has stay then.
  const int workers_now = strategy_.extended().input_context().num_input_pipelines();
  if (state.size() > 2 && count == static_cast<size_t>(workers_now)) {
    restore_replica_copies(tracked_variables(checkpoint_), state[2]);
  }
  return place;
}

void TrainingBackup::warn_of_end(int64_t steps) const {
  if (!strategy_.extended().should_checkpoint()) return;
  log_warning(
      "[BackupAndRestore] run() makes no step: the last backup in '{}' is of step {}, at which the "
      "data of this run() had ended; for a new training, choose another directory or delete this "
      "directory",
      options_.directory, steps);
}

void TrainingBackup::restore_objects() {
  if (manager_.restore_latest()) return;
  raise(Code::NotFound, "[BackupAndRestore] there is no good backup in '{}'", options_.directory);
}

bool TrainingBackup::is_lost_worker(const Status& why) const {
  return joint_workers(strategy_.extended()) != nullptr && is_loss(why.code);
}

void TrainingBackup::note_loss(const Status& why, int64_t steps) {
  const bool same = why.message == last_loss_.message && steps == last_loss_steps_;
  same_losses_ = same ? same_losses_ + 1 : 1;
  last_loss_ = why;
  last_loss_steps_ = steps;
}

void TrainingBackup::await_workers() {
  joint_workers(strategy_.extended())->rejoin(options_.rejoin_timeout);
}

namespace {

constexpr size_t kMaxCommand = 200;

std::string command_line() {
  std::string words = read_file("/proc/self/cmdline").value_or("");
  std::replace(words.begin(), words.end(), '\0', ' ');
  std::replace(words.begin(), words.end(), '\n', ' ');
  return words.substr(0, std::min(kMaxCommand, words.find_last_not_of(' ') + 1));
}

std::string this_process() { return fmt::format("process {} on host {},", getpid(), host_name()); }

// The host, and on the next line what people want to know of the run.
std::string own_note() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  return fmt::format("{}\n{} run '{}'{}, since {:%Y-%m-%d %H:%M:%S} UTC\n", host_name(),
                     this_process(), command_line(),
                     job == nullptr ? "" : fmt::format(" of Slurm job {}", job),
                     fmt::gmtime(std::time(nullptr)));
}

std::string read_note(int file) {
  std::array<char, 1024> bytes{};
  const ssize_t size = ::pread(file, bytes.data(), bytes.size(), 0);
  return size > 0 ? std::string(bytes.data(), static_cast<size_t>(size)) : "";
}

std::string host_in(const std::string& note) { return note.substr(0, note.find('\n')); }

std::string owner_in(const std::string& note) {
  const size_t begin = note.find('\n');
  const size_t end = begin == std::string::npos ? begin : note.find('\n', begin + 1);
  if (end == std::string::npos) return "a process that has just begun";
  return note.substr(begin + 1, end - begin - 1);
}

[[noreturn]] void raise_in_use(const std::string& directory, const std::string& owner) {
  if (owner.starts_with(this_process())) {
    raise(Code::FailedPrecondition,
          "[Backup] the directory '{}' is in use by another backup of this same process, {}; end "
          "that one first, or choose another directory",
          directory, owner);
  }
  raise(Code::FailedPrecondition,
        "[Backup] the directory '{}' is in use by {}; wait until that run has ended, or choose "
        "another directory",
        directory, owner);
}

FileDescriptor open_lock(const std::string& directory, const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(directory, problem);  // open() says what is wrong
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file) return file;
  const int error = errno;
  raise(code_of_errno(error), "[Backup] cannot open '{}': {}", path, errno_text(error));
}

void write_note(int file, const std::string& note, const std::string& path) {
  const bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, note.data(), note.size(), 0) ==
                                                        static_cast<ssize_t>(note.size());
  if (!written) log_warning("[Backup] cannot write '{}': {}", path, errno_text(errno));
}

}  // namespace

BackupLock::BackupLock(const std::string& directory)
    : path_(directory + "/lock"), file_(open_lock(directory, path_)) {
  const bool locked = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  const int problem = locked ? 0 : errno;
  const std::string note = read_note(file_.get());
  if (problem == EWOULDBLOCK) raise_in_use(directory, owner_in(note));
  if (!locked) {
    log_warning("[Backup] '{}' cannot be locked ({}): no other run may use the directory", path_,
                errno_text(problem));
  }
  if (!note.empty() && host_in(note) != host_name()) {
    log_warning(
        "[Backup] the directory '{}' was last used by {}, which did not end properly; if that "
        "process still runs, stop it: this file system may not share locks between hosts",
        directory, owner_in(note));
  }
  write_note(file_.get(), own_note(), path_);
}

BackupLock::~BackupLock() { write_note(file_.get(), "", path_); }

}  // namespace cohort::internal

namespace cohort {

struct BackupAndRestore::Impl {
  Impl(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
       const BackupOptions& options)
      : every_steps(options.every_steps), backup(strategy, objects, options) {}

  BackupReport run(const DistributedDataset& data, const Step& step);
  void train(const DistributedDataset& data, const Step& step);
  // On all workers: continues from the last backup or from the beginning of the data.
  void resume(const DistributedDataset& data);
  // For a call whose data has ended. `after_loss`: this process made its steps.
  void pass_over(const DistributedDataset& data, bool after_loss);
  void back_up(DistributedIterator& iterator);
  void recover(const DistributedDataset& data, const Status& why);

  const int64_t every_steps;
  internal::TrainingBackup backup;
  int64_t number = 0;           // of the next run() call
  int64_t part = 0;             // the run() call that the next members are of
  bool ended = false;           // whether its data has ended
  std::string position;         // of this worker; empty: at the beginning
  bool ended_well = false;      // whether the last run() call ended without an error
  bool restores_again = false;  // whether run() continues after calls that were complete
  BackupReport report;
};

BackupAndRestore::BackupAndRestore(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                                   const BackupOptions& options)
    : impl_(std::make_unique<Impl>(strategy, objects, options)) {}

BackupAndRestore::~BackupAndRestore() = default;

BackupReport BackupAndRestore::run(const DistributedDataset& data, const Step& step) {
  return impl_->run(data, step);
}

const BackupReport& BackupAndRestore::report() const { return impl_->report; }

BackupReport BackupAndRestore::Impl::run(const DistributedDataset& data, const Step& step) {
  std::optional<Status> lost;
  while (true) {
    try {
      if (lost) {
        recover(data, *lost);
      } else {
        resume(data);
      }
      const int64_t before = report.steps;
      if (part > number || ended) {
        pass_over(data, lost.has_value());
      } else {
        train(data, step);
      }
      report.new_steps = report.steps - before;
      ++number;
      ended_well = true;
      return report;
    } catch (const Error& error) {
      if (!backup.is_lost_worker(error.status())) throw;
      lost = error.status();
      backup.note_loss(*lost, report.steps);
    }
  }
}

void BackupAndRestore::Impl::train(const DistributedDataset& data, const Step& step) {
  std::optional<DistributedIterator> iterator;
  backup.share("whether the data begins", [&] {
    if (std::exchange(restores_again, false)) backup.restore_again();
    iterator.emplace(position.empty() ? data.iterator() : data.iterator(position));
  });
  while (const auto element = iterator->next_optional()) {
    step(*element);
    ++report.steps;
    if (report.steps % every_steps == 0) back_up(*iterator);
  }
  ended = true;
  back_up(*iterator);
}

// Makes no call with other workers: a worker that was started again passes over what the others
// have done, while they wait for it in a later run().
void BackupAndRestore::Impl::pass_over(const DistributedDataset& data, bool after_loss) {
  if (part > number) {
    internal::log_info("[BackupAndRestore] run() number {} was complete before the last backup",
                       number + 1);
    return;
  }
  if (std::exchange(restores_again, false)) backup.restore_again();
  if (!position.empty()) (void)data.iterator(position);  // counts the pass over the data
  if (!after_loss) backup.warn_of_end(report.steps);
}

void BackupAndRestore::Impl::back_up(DistributedIterator& iterator) {
  backup.save([&] { return internal::TrainingPlace{report.steps, iterator.save(), part, ended}; });
}

// The program may change the objects between two calls of run(). The first backup of a call has
// these changes. A call that goes on from a backup, after earlier calls that were complete, must
// not have them a second time.
void BackupAndRestore::Impl::resume(const DistributedDataset& data) {
  restores_again = std::exchange(ended_well, false);
  if (!restores_again) {
    const auto place = backup.restore();
    part = place ? place->part : number - 1;
    ended = place && place->ended;
    if (place) {
      report.steps = place->steps;
      position = place->position;
    }
  }
  if (part >= number) return;
  restores_again = ended = false;
  part = number;
  backup.begin([&] {
    position = data.iterator().save();
    return internal::TrainingPlace{report.steps, position, part, ended};
  });
}

void BackupAndRestore::Impl::recover(const DistributedDataset& data, const Status& why) {
  const int64_t reached = report.steps;
  internal::log_warning(
      "[BackupAndRestore] after step {}: {}; this worker waits until all workers are there again",
      reached, why.to_string());
  backup.await_workers();
  resume(data);
  ++report.recoveries;
  report.lost_steps += reached - report.steps;
  internal::log_warning(
      "[BackupAndRestore] training goes on from the backup of step {}: {} steps are lost and made "
      "again",
      report.steps, reached - report.steps);
}

}  // namespace cohort
