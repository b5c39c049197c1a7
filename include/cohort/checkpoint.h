#pragma once

#include <map>

#include "cohort/internal/durations.h"
#include "cohort/nn_layers.h"
#include "cohort/session.h"

// Checkpoints keep the state of a program in files, so that it can continue after a restart. Saver
// saves the variables of a graph, which a Session holds. Checkpoint saves objects: models,
// optimizers, positions in datasets. Both write the same format.
//
// The prefix "directory/model-100" names a checkpoint. Its tensors are in safetensors files beside
// it; <prefix>.manifest.json lists the files, their tensors and checksums. A save writes this
// manifest last, under a temporary name, and renames it; only then does the checkpoint exist. A
// failed save therefore damages no earlier checkpoint, not even one of the same prefix.
//
// Reading throws DataLoss, with the file and tensor, if a file is damaged, cut off or not as in the
// manifest, and NotFound, with similar names, if the checkpoint does not have a tensor.

namespace cohort {

class Checkpoint;
namespace metrics {
class Metric;
}

// ---- Reading a checkpoint

// SavedTensor describes one tensor of a checkpoint.
struct SavedTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

// CheckpointReader reads single tensors of a checkpoint and lists its content.
//
//   CheckpointReader reader(latest_checkpoint(directory).value());
//   for (const SavedTensor& saved : reader.tensors()) x = reader.read(saved.name);
//
// Thread-safe. A reader keeps each file open that it has read from, so it can read on after the
// checkpoint is deleted.
class CheckpointReader {
 public:
  // Throws NotFound if no checkpoint has this prefix, DataLoss if the manifest is damaged, and
  // Unimplemented if a newer version of Cohort wrote the format.
  explicit CheckpointReader(std::string_view prefix);

  const std::string& prefix() const;
  std::optional<int64_t> step() const;
  std::chrono::system_clock::time_point saved_at() const;
  std::vector<SavedTensor> tensors() const;  // sorted by name
  bool contains(std::string_view name) const;
  std::vector<std::string> files() const;  // paths of the files with the tensors

  // Returns a tensor, or the part of the tensor that begins at `offset` and has the given shape.
  // Joins the slices in which the tensor was saved. Strings have no parts (Unimplemented).
  Tensor read(std::string_view name) const;
  Tensor read_slice(std::string_view name, const std::vector<int64_t>& offset,
                    const Shape& shape) const;
  // Reads all files of the checkpoint that are on this machine. Throws if one of them is damaged.
  void verify() const;

 private:
  std::shared_ptr<const internal::CheckpointFiles> files_;
};

// Returns whether a checkpoint with this prefix exists. Does not check whether it is damaged.
bool checkpoint_exists(std::string_view prefix);
// Deletes the manifest of a checkpoint, then those of its files that are on this machine.
void remove_checkpoint(std::string_view prefix);

// Write and read one safetensors file, to exchange weights with other programs. Writing is atomic.
// Throws InvalidArgument for strings, because the format does not have them.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> load_safetensors(const std::string& path);

// ---- Finding checkpoints

// CheckpointState is the content of the state file of a directory, which is called "checkpoint":
// the prefixes of the checkpoints that are kept, oldest first, and which of them is the latest.
struct CheckpointState {
  std::string latest;
  std::vector<std::string> all;
  std::vector<std::chrono::system_clock::time_point> saved_at;  // one for each prefix in `all`
};
// Returns the content of the state file, with paths that are resolved against the directory.
// Returns nullopt if the file does not exist, and also, with a warning, if it is damaged. Throws
// InvalidArgument if the file names no latest checkpoint, and other errors if it cannot be read.
std::optional<CheckpointState> get_checkpoint_state(const std::string& directory,
                                                    const std::string& state_file = "checkpoint");

// CheckpointCheck sets what latest_checkpoint() checks before it returns a checkpoint.
enum class CheckpointCheck {
  Contents,  // reads all files and compares checksums
  Sizes,     // reads the manifest and compares the sizes of the files
};
struct LatestCheckpointOptions {
  std::string state_file = "checkpoint";
  CheckpointCheck check = CheckpointCheck::Contents;
};
// Returns the prefix of the last good checkpoint: the latest of the state file, or else an earlier
// one of its list, or else the newest good checkpoint in the directory. Logs a warning for each
// damaged checkpoint. Returns nullopt if the directory has no good checkpoint.
std::optional<std::string> latest_checkpoint(const std::string& directory,
                                             const LatestCheckpointOptions& options = {});

// ---- Graphs: Saver

// SavedPart makes a variable one part of a larger tensor, which several variables hold together.
// The part begins at `offset` of a tensor of shape `full_shape`, which is saved as `name`.
// Restoring works from any other partition of the same tensor.
struct SavedPart {
  std::string name;
  Variable variable;
  Shape full_shape;
  std::vector<int64_t> offset;
};

// SaverVariables lists the variables of a Saver. Each variable is saved under its own name or under
// the name of the map. A ShardedVariable is saved as one tensor, of which the shards are parts.
class SaverVariables {
 public:
  SaverVariables() = default;
  SaverVariables(std::initializer_list<Variable> variables)
      : SaverVariables(std::vector<Variable>(variables)) {}
  SaverVariables(const std::vector<Variable>& variables);
  SaverVariables(const std::map<std::string, Variable>& variables);

  struct Item {
    std::string name;
    Variable variable;
  };
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

// SaverOptions sets how a Saver writes checkpoints and how many it keeps.
struct SaverOptions {
  // How many checkpoints to keep; older ones are deleted. Empty: deletes none, and lists only the
  // last; 0, as in TensorFlow, is the same as empty.
  std::optional<int> max_to_keep = 5;
  // In each period of this length, one checkpoint that would be deleted is kept for good. Empty:
  // none is.
  std::optional<std::chrono::milliseconds> keep_checkpoint_every = std::chrono::hours(10'000);
  // If true, each device writes its own variables to the same path on the disk of its task, which
  // need not be shared. If false, all tensors are sent to this process, which writes them.
  bool sharded = false;
  // If true, save() returns once it has the values, and a thread writes them.
  bool asynchronous = false;
  // Tasks that hold files of checkpoints to restore, although they have no variables of this graph.
  std::vector<std::string> shard_devices = {};
};

// SaveOptions sets the name of one checkpoint and whether the state file lists it.
struct SaveOptions {
  std::optional<int64_t> global_step = std::nullopt;  // the prefix becomes "prefix-step"
  std::string state_file = "checkpoint";              // in the prefix's directory
  bool write_state = true;                            // lists the checkpoint in that file
};

// SaveProgress reports how much of an asynchronous save is written.
struct SaveProgress {
  bool writing = false;
  std::string prefix;  // of the current save, otherwise of the last
  int64_t bytes_written = 0;
  int64_t bytes_total = 0;
};

// Saver saves and restores the variables of a graph.
//
//   Saver saver({.max_to_keep = 3});
//   std::string prefix = saver.save(session, directory + "/model", {.global_step = 100});
//   saver.restore(session, prefix);
//
// Creating a Saver adds nodes to the graph, so create it before the graph is finalised. Copies
// share one saver. Thread-safe.
class Saver {
 public:
  // Saves all variables that the graph being built has so far, by name.
  explicit Saver(const SaverOptions& options = {}, Site site = Site::here());
  // Saves the given variables. Throws InvalidArgument if there are none, or two with one name.
  explicit Saver(const SaverVariables& variables, const SaverOptions& options = {},
                 Site site = Site::here());
  // Saves whole variables, and parts of larger tensors. The list in braces takes part only in this
  // overload, so that the braces of options are not mistaken for a list of parts.
  Saver(const SaverVariables& variables, std::initializer_list<SavedPart> parts,
        const SaverOptions& options = {}, Site site = Site::here());
  template <std::same_as<std::vector<SavedPart>> Parts>
  Saver(const SaverVariables& variables, const Parts& parts, const SaverOptions& options = {},
        Site site = Site::here())
      : Saver(std::span<const SavedPart>(parts), variables, options, site) {}

  // Saves a checkpoint and returns its prefix. The checkpoint then exists, unless saving is
  // asynchronous. Creates missing directories. Throws FailedPrecondition with the name of a
  // variable that has no value, and InvalidArgument for a prefix that is the state file itself. If
  // an earlier asynchronous save failed, throws its error once and saves nothing.
  std::string save(Session& session, std::string_view prefix, const SaveOptions& options = {});

  // Assigns the values of a checkpoint to the variables, which need not be initialised. Assigns
  // nothing unless the checkpoint has all of them (NotFound) with the right dtypes and shapes
  // (InvalidArgument). Files on other machines are read by the tasks that wrote them.
  void restore(Session& session, std::string_view prefix);

  // Returns the checkpoints that this saver knows and may delete, oldest first.
  std::vector<std::string> last_checkpoints() const;
  // Replaces that list. Ignores prefixes without a checkpoint. If the list is empty, restore()
  // fills it from the state file, so that a restarted program deletes old checkpoints.
  void recover_last_checkpoints(const std::vector<std::string>& prefixes);

  // Waits for asynchronous saves. Throws the error of a failed one. The destructor of the last copy
  // waits too, and logs the error.
  void wait();
  SaveProgress progress() const;

 private:
  Saver(std::span<const SavedPart> parts, const SaverVariables& variables,
        const SaverOptions& options, Site site);

  std::shared_ptr<internal::SaverImpl> impl_;
};

// ---- Objects: Checkpoint

// Trackable is an object whose state a Checkpoint saves. It converts from a variable, a module, an
// optimizer, a metric, or another Checkpoint.
class Trackable {
 public:
  Trackable(const Variable& variable);
  // The variables of a module, by path. The module is one of nn:: or a TorchModule.
  template <typename Part>
  requires requires(const Part& module) {
    { module.named_variables() } -> std::same_as<nn::NamedVariables>;
  }
  Trackable(const Part& module);
  // The number of updates and the slots of an optimizer. A slot that is created after restore()
  // begins with its saved value. The optimizer must outlive the checkpoint. So must a metric.
  Trackable(optim::Optimizer& optimizer);
  Trackable(const metrics::Metric& metric);
  Trackable(const Checkpoint& part);

  // State that the program itself converts to bytes and back. If several workers save together, the
  // checkpoint keeps the bytes of each worker. On restore each worker gets its own bytes; if the
  // number of workers differs, all workers get the bytes of the chief.
  using SaveBytes = std::function<std::string()>;
  using RestoreBytes = std::function<void(const std::string& saved)>;
  static Trackable bytes(SaveBytes save, RestoreBytes restore);

  // The position of `iterator` in `dataset`, with its buffers. Restoring replaces the iterator,
  // which must outlive the checkpoint. Workers keep their own positions in a distributed dataset;
  // its checkpoint needs variables of the strategy, or the scope of the strategy around save and
  // restore.
  template <typename Dataset, typename Iterator>
  static Trackable position(const Dataset& dataset, Iterator& iterator);

 private:
  friend class internal::CheckpointImpl;
  explicit Trackable(std::shared_ptr<const internal::Tracked> tracked);
  Trackable(std::function<nn::NamedVariables()> variables, std::nullptr_t);

  std::shared_ptr<const internal::Tracked> tracked_;
};

// RestoreStatus checks how much of a checkpoint a restore used. Copies share their state. The
// destructor of the last copy logs a warning with the values that no object used, unless
// assert_consumed(), assert_existing_objects_matched() or expect_partial() was called.
class RestoreStatus {
 public:
  // Throws FailedPrecondition, with names, unless every value of the checkpoint was used and every
  // tracked object found its values.
  const RestoreStatus& assert_consumed() const;
  // Throws FailedPrecondition, with names, unless every tracked object found its values.
  const RestoreStatus& assert_existing_objects_matched() const;
  // Throws FailedPrecondition, with names, if the checkpoint has values for variables that a
  // tracked object does not have yet. A layer that is created without the size of its input has no
  // variables before its first call. Slots of optimizers may be missing.
  const RestoreStatus& assert_variables_exist() const;
  // States that the program uses only a part of the checkpoint.
  const RestoreStatus& expect_partial() const;

 private:
  friend class internal::CheckpointImpl;
  explicit RestoreStatus(std::shared_ptr<internal::RestoreState> state);
  std::shared_ptr<internal::RestoreState> state_;
};

// CheckpointOptions sets how a Checkpoint writes.
struct CheckpointOptions {
  bool asynchronous = false;  // as in SaverOptions
};

// Checkpoint saves and restores a set of named objects together.
//
//   Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}, {"w", w}});
//   checkpoint.save(directory + "/ckpt");  // writes directory/ckpt-1
//   checkpoint.restore(latest_checkpoint(directory).value()).assert_consumed();
//
// Each tensor is saved by its path, such as "model/0/kernel". A variable of a strategy is saved as
// one value and can be restored to any number of replicas, or to an ordinary variable.
//
// If a strategy has several workers, all of them call save() or write() at the same place of the
// program, with the same name; the directories may differ. Only the chief writes, but values may
// combine those of all workers, and an error on one worker is thrown on all.
//
// Use it outside replicas, not from two threads at the same time. Copies share one checkpoint.
class Checkpoint {
 public:
  using Item = std::pair<std::string, Trackable>;
  explicit Checkpoint(std::initializer_list<Item> items = {},
                      const CheckpointOptions& options = {});
  explicit Checkpoint(const std::vector<Item>& items, const CheckpointOptions& options = {});

  // Adds an object. If restore() was called before, assigns the saved values now. Throws
  // InvalidArgument if the name is empty, contains '/' or is "save_counter", or if the checkpoint
  // would contain itself. Throws AlreadyExists if the name is taken.
  Checkpoint& track(const std::string& name, const Trackable& object);

  // Writes "prefix-n" and returns it, where n counts the saves of this checkpoint, including those
  // before a restore. Makes it the latest of its directory, whose list keeps the earlier ones. The
  // checkpoint then exists, unless saving is asynchronous. With several workers the chief writes
  // the files, so the other workers find them only on a shared file system.
  std::string save(std::string_view prefix, Site site = Site::here());
  // Writes exactly `prefix`, without a number, and lists it nowhere.
  std::string write(std::string_view prefix, Site site = Site::here());
  // Assigns the saved values, on this worker only: all workers of a strategy must restore the same
  // checkpoint. Throws InvalidArgument, and changes nothing, if a dtype or shape differs.
  RestoreStatus restore(std::string_view prefix);
  // Restores what write() wrote. Does not change the number of saves.
  RestoreStatus read(std::string_view prefix);
  int64_t save_counter() const;

  // Waits for the last asynchronous save. All workers of a strategy call it at the same place of
  // the program, while the strategy exists. Returns on each worker once the checkpoint exists, or
  // throws the error of the chief on each worker. The destructor of the last copy waits only for
  // the writing of its own worker, and logs an error.
  void wait(Site site = Site::here());
  SaveProgress progress() const;

 private:
  friend class internal::CheckpointManagerImpl;
  friend class Trackable;
  std::shared_ptr<internal::CheckpointImpl> impl_;
};

// CheckpointManagerOptions sets how many checkpoints a CheckpointManager keeps, as in SaverOptions.
struct CheckpointManagerOptions {
  std::optional<int> max_to_keep = 5;  // empty or 0 keeps all
  std::optional<std::chrono::milliseconds> keep_checkpoint_every = std::chrono::hours(10'000);
  std::string checkpoint_name = "ckpt";  // prefixes are "directory/ckpt-1"
};

// CheckpointManager keeps the last few checkpoints of one Checkpoint in a directory.
//
//   Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
//   CheckpointManager manager(checkpoint, directory, {.max_to_keep = 3});
//   manager.restore_latest();
//   manager.save();
//
// Copies share one manager. Thread-safe.
class CheckpointManager {
 public:
  CheckpointManager(const Checkpoint& checkpoint, std::string directory,
                    const CheckpointManagerOptions& options = {});

  // Saves "directory/name-number", deletes the checkpoints beyond max_to_keep, and returns the
  // prefix. The default number is that of Checkpoint::save().
  std::string save(std::optional<int64_t> number = std::nullopt, Site site = Site::here());
  // Returns the last good checkpoint of the directory, as the function latest_checkpoint() does.
  std::optional<std::string> latest_checkpoint() const;
  std::vector<std::string> checkpoints() const;  // those that are kept, oldest first
  // Restores the last good checkpoint and returns its prefix. Returns nullopt if there is none.
  std::optional<std::string> restore_latest();
  const std::string& directory() const;

 private:
  std::shared_ptr<internal::CheckpointManagerImpl> impl_;
};

}  // namespace cohort

#include "cohort/internal/checkpoint_inl.h"  // IWYU pragma: export
