#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/nn_layers.h"
#include "cohort/session.h"
#include "cohort/site.h"
#include "cohort/tensor.h"
#include "cohort/variable.h"

// Checkpoints: a program's state in files, and back. Two ways to write and read them over one
// format: Saver for the variables of a graph and a Session, Checkpoint for objects.
//
// A checkpoint is named by its prefix, "directory/model-100". Its tensors are in safetensors files
// beside it; the file <prefix>.manifest.json says what is where, with checksums, and makes the
// checkpoint exist: it is written last, under another name, and renamed. Whatever happens while one
// is written, those before it stay whole, also when the same prefix is written again.
//
// Files that are damaged, cut off or not what the manifest says are DataLoss, which names the file
// and the tensor; a tensor that is not there is NotFound, which names those that are called alike.

namespace cohort {

class Checkpoint;
namespace data {
class Iterator;
}
namespace metrics {
class Metric;
}
namespace optim {
class Optimizer;
}
namespace internal {
class CheckpointFiles;
class CheckpointImpl;
class CheckpointManagerImpl;
class SaverImpl;
struct RestoreState;
struct Tracked;
}  // namespace internal

// ---- Looking into a checkpoint

struct SavedTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

// The content of one checkpoint. Thread-safe. Files that it has read from stay open, so that it
// goes on reading when the checkpoint is deleted.
class CheckpointReader {
 public:
  // Throws NotFound when no checkpoint has that prefix, DataLoss when its manifest is damaged, and
  // Unimplemented when it has a newer format.
  explicit CheckpointReader(std::string_view prefix);

  const std::string& prefix() const;
  std::optional<int64_t> step() const;
  std::chrono::system_clock::time_point saved_at() const;
  std::vector<SavedTensor> tensors() const;  // in order of name
  bool contains(std::string_view name) const;
  std::vector<std::string> files() const;  // the paths of the files with its tensors

  // A tensor, or the part of it that begins at `offset` and has that shape; put together from the
  // slices in which it was saved.
  Tensor read(std::string_view name) const;
  Tensor read_slice(std::string_view name, const std::vector<int64_t>& offset,
                    const Shape& shape) const;
  // Reads everything that is on this machine, and throws what is wrong with it.
  void verify() const;

 private:
  std::shared_ptr<const internal::CheckpointFiles> files_;
};

// Whether a checkpoint of that prefix exists. It may be damaged all the same.
bool checkpoint_exists(std::string_view prefix);
// Deletes its manifest, then its files as far as they are on this machine.
void remove_checkpoint(std::string_view prefix);

// safetensors files as such, to exchange weights with other programs. Writing is atomic. Strings
// are InvalidArgument: the format has none.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> load_safetensors(const std::string& path);

// ---- Which checkpoints there are

// What the file "checkpoint" of a directory says: which checkpoints are kept, oldest first, and
// which of them is current.
struct CheckpointState {
  std::string latest;
  std::vector<std::string> all;
  std::vector<std::chrono::system_clock::time_point> saved_at;  // one for each of `all`
};
// nullopt when there is none; one that cannot be read counts as none, with a warning. Throws
// InvalidArgument when it names no latest checkpoint. Relative paths are resolved against the
// directory.
std::optional<CheckpointState> get_checkpoint_state(const std::string& directory,
                                                    const std::string& state_file = "checkpoint");

enum class CheckpointCheck {
  Contents,  // reads everything and compares checksums
  Sizes,     // that the manifest is whole and the files have their sizes
};
struct LatestCheckpointOptions {
  std::string state_file = "checkpoint";
  CheckpointCheck check = CheckpointCheck::Contents;
};
// The prefix of the last good checkpoint: the state file's latest, or one listed before it where
// that is damaged, with a warning that says why. Where the state file says nothing, the newest one
// in the directory. nullopt when there is none.
std::optional<std::string> latest_checkpoint(const std::string& directory,
                                             const LatestCheckpointOptions& options = {});

// ---- Graphs: Saver

// Part of a tensor that several variables hold together: the variable is the part that begins at
// `offset` of a tensor of shape `full_shape` that is saved as `name`. It is restored from any other
// way of cutting that tensor.
struct SavedPart {
  std::string name;
  Variable variable;
  Shape full_shape;
  std::vector<int64_t> offset;
};

// Variables that a Saver is for: each is saved under its own name, or under the one given. The
// shards of a ShardedVariable are saved as parts of one tensor, which has its name.
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

struct SaverOptions {
  // How many checkpoints to keep; older ones are deleted. 0 keeps all, and lists only the last.
  int max_to_keep = 5;
  // One of those that would be deleted is kept for good in each such time.
  double keep_checkpoint_every_n_hours = 10'000;
  // Each device writes its own variables, to the same path on its task's disk. Tasks need not see
  // each other's disks: the manifest says who wrote what. Otherwise all tensors are sent here.
  bool sharded = false;
  // save() returns when it has the values, and a thread writes them.
  bool asynchronous = false;
  // Tasks without variables of this graph that have files of checkpoints to restore.
  std::vector<std::string> shard_devices = {};
};

struct SaveOptions {
  std::optional<int64_t> global_step = std::nullopt;  // the prefix becomes "prefix-step"
  std::string state_file = "checkpoint";              // in the prefix's directory
  bool write_state = true;                            // list it there
};

// How far an asynchronous writer is.
struct SaveProgress {
  bool writing = false;
  std::string prefix;  // being written, else the last one
  int64_t bytes_written = 0;
  int64_t bytes_total = 0;
};

// Saves and restores variables of a graph. Making one adds nodes to the graph, so make it before
// the graph is finalised. A handle: copies are the same saver. Thread-safe.
class Saver {
 public:
  // All variables that the graph being built has so far, by name.
  explicit Saver(const SaverOptions& options = {});
  // These. Two under one name are InvalidArgument, and so is none at all.
  explicit Saver(const SaverVariables& variables, const SaverOptions& options = {});
  // Whole variables, and parts of larger tensors. A list in braces is for the first of the two, so
  // that braces with options are not taken for one.
  Saver(const SaverVariables& variables, std::initializer_list<SavedPart> parts,
        const SaverOptions& options = {});
  template <std::same_as<std::vector<SavedPart>> Parts>
  Saver(const SaverVariables& variables, const Parts& parts, const SaverOptions& options = {})
      : Saver(std::span<const SavedPart>(parts), variables, options) {}

  // Returns the prefix of the new checkpoint, which exists then, unless saving is asynchronous.
  // Missing directories are made. Throws FailedPrecondition naming a variable that has no value,
  // and InvalidArgument for a prefix that would be the state file itself. What an earlier
  // asynchronous save met is thrown here, once, before anything is saved.
  std::string save(Session& session, std::string_view prefix, const SaveOptions& options = {});

  // Gives the variables their values from the checkpoint; the session needs no initialisation
  // before. Nothing is assigned unless all of them are there with fitting dtype and shape
  // (NotFound, InvalidArgument). Files that are not here are read by the tasks that wrote them.
  void restore(Session& session, std::string_view prefix);

  // Prefixes of the checkpoints that this saver knows and may delete, oldest first.
  std::vector<std::string> last_checkpoints() const;
  // Replaces the list; those that do not exist are left out. restore() does this with the
  // directory's state file while the list is empty, so that a restarted program goes on deleting
  // old ones.
  void recover_last_checkpoints(const std::vector<std::string>& prefixes);

  // Waits for asynchronous saves, and throws what went wrong with them. The last copy of a saver
  // waits too, and logs it.
  void wait();
  SaveProgress progress() const;

 private:
  Saver(std::span<const SavedPart> parts, const SaverVariables& variables,
        const SaverOptions& options);

  std::shared_ptr<internal::SaverImpl> impl_;
};

// ---- Objects: Checkpoint

// Something whose state a Checkpoint keeps.
class Trackable {
 public:
  Trackable(const Variable& variable);
  // A module's variables, by path: one of ours, or a TorchModule.
  template <typename Part>
  requires requires(const Part& module) {
    { module.named_variables() } -> std::same_as<nn::NamedVariables>;
  }
  Trackable(const Part& module)
      : Trackable([module] { return module.named_variables(); }, nullptr) {}
  // The number of updates and the slots. Slots that do not exist yet begin with what was saved. The
  // optimizer must outlive the checkpoint, and so must a metric.
  Trackable(optim::Optimizer& optimizer);
  Trackable(const metrics::Metric& metric);
  Trackable(const Checkpoint& part);

  // Bytes that the program makes and takes. Workers that save together keep those of each, and get
  // their own back; another number of workers gets the chief's.
  using SaveBytes = std::function<std::string()>;
  using RestoreBytes = std::function<void(const std::string& saved)>;
  static Trackable bytes(SaveBytes save, RestoreBytes restore);

  // How far `iterator` is in `dataset`, buffers and all; restoring replaces the iterator, which
  // must outlive the checkpoint. For distributed datasets too, of each worker its own; then the
  // checkpoint has variables of the strategy, or is saved and restored in the strategy's scope.
  template <typename Dataset, typename Iterator>
  static Trackable position(const Dataset& dataset, Iterator& iterator) {
    return bytes([&iterator] { return iterator.save(); },
                 [dataset, &iterator](const std::string& saved) {
                   if constexpr (requires { dataset.iterate(saved); }) {
                     iterator = dataset.iterate(saved);
                   } else {
                     iterator = dataset.iterator(saved);
                   }
                 });
  }

 private:
  friend class internal::CheckpointImpl;
  explicit Trackable(std::shared_ptr<const internal::Tracked> tracked);
  Trackable(std::function<nn::NamedVariables()> variables, std::nullptr_t);

  std::shared_ptr<const internal::Tracked> tracked_;
};

// What became of a restore. Copies share it. When the last one goes, what was in the checkpoint and
// never used is a warning, unless one of these was called.
class RestoreStatus {
 public:
  // Throws FailedPrecondition, with names, unless everything in the checkpoint was used and every
  // tracked object had its value there.
  const RestoreStatus& assert_consumed() const;
  // The same for the tracked objects only.
  const RestoreStatus& assert_existing_objects_matched() const;
  // Throws FailedPrecondition, with names, if the checkpoint has values for variables of a tracked
  // object which that object does not have, as before the first call of a layer that is made
  // without the size of its input. Slots of optimizers may be missing.
  const RestoreStatus& assert_variables_exist() const;
  // Only part of the checkpoint is wanted: no warning.
  const RestoreStatus& expect_partial() const;

 private:
  friend class internal::CheckpointImpl;
  explicit RestoreStatus(std::shared_ptr<internal::RestoreState> state);
  std::shared_ptr<internal::RestoreState> state_;
};

struct CheckpointOptions {
  bool asynchronous = false;  // as in SaverOptions
};

// Objects by name, saved and restored together:
//
//   Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}, {"step", step}});
//   checkpoint.save("directory/ckpt");                                  // directory/ckpt-1
//   checkpoint.restore(*latest_checkpoint("directory")).assert_consumed();
//
// Tensors are saved by path: "model/0/kernel". A strategy's variables are saved as one value each
// and restored to any number of replicas, or to ordinary variables. Of several workers the chief
// alone writes, but all call save() or write() at the same place of the program and with the same
// name, in whatever directory: values may be made of all workers' together, and what goes wrong on
// one of them is thrown on all. Use it outside replicas; save and restore are not for two threads
// at the same time. A handle: copies are the same checkpoint.
class Checkpoint {
 public:
  using Item = std::pair<std::string, Trackable>;
  explicit Checkpoint(std::initializer_list<Item> items = {},
                      const CheckpointOptions& options = {});
  explicit Checkpoint(const std::vector<Item>& items, const CheckpointOptions& options = {});

  // A name is not empty and has no '/' (InvalidArgument), and comes once (AlreadyExists). A
  // checkpoint cannot have itself inside (InvalidArgument). An object that is tracked after
  // restore() gets its value now.
  Checkpoint& track(const std::string& name, const Trackable& object);

  // Writes "prefix-n", where n counts the saves of this checkpoint, restored ones included, and
  // makes it the latest of its directory, whose list keeps those before. Returns it once it exists,
  // unless saving is asynchronous. All workers of a strategy call it, and the chief writes it, so
  // the others find the files only where they share the chief's file system.
  std::string save(std::string_view prefix, Site site = Site::here());
  // Writes exactly there, and lists it nowhere.
  std::string write(std::string_view prefix, Site site = Site::here());
  // Gives every tracked object its value, on this worker alone: all workers of a strategy must
  // restore the same values. Wrong dtypes and shapes are InvalidArgument, and then nothing has
  // changed.
  RestoreStatus restore(std::string_view prefix);
  // The same for what write() wrote: the number of saves stays as it is.
  RestoreStatus read(std::string_view prefix);
  int64_t save_counter() const;

  // Waits for the last asynchronous save, and throws what went wrong with it. All workers of a
  // strategy call it at the same place of the program, while the strategy exists. It returns on
  // each worker when the checkpoint exists, and throws on each worker what the chief met. The last
  // copy of a checkpoint waits for the writing of its own worker, and logs an error.
  void wait(Site site = Site::here());
  SaveProgress progress() const;

 private:
  friend class internal::CheckpointManagerImpl;
  friend class Trackable;
  std::shared_ptr<internal::CheckpointImpl> impl_;
};

struct CheckpointManagerOptions {
  int max_to_keep = 5;  // 0: all
  double keep_checkpoint_every_n_hours = 10'000;
  std::string checkpoint_name = "ckpt";  // prefixes are "directory/ckpt-1"
};

// Keeps the last few checkpoints of one Checkpoint in a directory. A handle; thread-safe.
class CheckpointManager {
 public:
  CheckpointManager(const Checkpoint& checkpoint, std::string directory,
                    const CheckpointManagerOptions& options = {});

  // Saves "directory/name-number", the number being the checkpoint's save counter unless given, and
  // deletes what is more than enough. Returns the prefix.
  std::string save(std::optional<int64_t> number = std::nullopt, Site site = Site::here());
  // The last good one, as latest_checkpoint() finds it.
  std::optional<std::string> latest_checkpoint() const;
  std::vector<std::string> checkpoints() const;  // those kept, oldest first
  // Restores the last good checkpoint, where there is one; returns its prefix.
  std::optional<std::string> restore_latest();
  const std::string& directory() const;

 private:
  std::shared_ptr<internal::CheckpointManagerImpl> impl_;
};

}  // namespace cohort
