#include <algorithm>

#include "base/mutex.h"
#include "base/raise.h"
#include "checkpoint/background_saving.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/saver_restoring.h"
#include "checkpoint/saver_runs.h"
#include "cohort/graph_variable.h"

namespace cohort {
namespace internal {
namespace {

void check_state_file(std::string_view prefix, const SaveOptions& options, bool sharded) {
  const std::string& name = options.state_file;
  if (name.empty() || file_name_of(name) != name) {
    raise(Code::InvalidArgument, "[Saver] the state file '{}' must be a name without a directory",
          name);
  }
  if (!sharded && !options.global_step && file_name_of(prefix) == name) {
    raise(Code::InvalidArgument,
          "[Saver] the prefix '{}' is the state file itself; use another name, or a global_step",
          prefix);
  }
}

// The file that lists checkpoints; empty: this save has none.
std::string state_file(const SaveOptions& options) {
  return options.write_state ? options.state_file : "";
}

// The saved tensor is what the variable can hold.
void check_fits(const SaverItem& item, const CheckpointFiles& files) {
  const SavedEntry& entry = files.entry(item.saved.name);
  const Shape& wanted =
      item.saved.part ? item.saved.part->full_shape : item.variable->first_copy().shape;
  if (entry.dtype == item.saved.dtype && entry.shape.is_compatible_with(wanted)) return;
  raise(Code::InvalidArgument,
        "[Saver] '{}' has tensor '{}' as {} {}, but variable '{}' wants {} {}", files.prefix(),
        item.saved.name, to_string(entry.dtype), entry.shape.to_string(), item.variable->name(),
        to_string(item.saved.dtype), wanted.to_string());
}

}  // namespace

class SaverImpl {
 public:
  SaverImpl(std::vector<SaverItem> items, const SaverOptions& options, Site site)
      : sharded_(options.sharded),
        graph_(std::move(items), options, site),
        list_("Saver", {.max_to_keep = options.max_to_keep,
                        .keep_checkpoint_every = options.keep_checkpoint_every}),
        queue_(options.asynchronous) {}

  std::string save(Session& session, std::string_view prefix, const SaveOptions& options) {
    check_state_file(prefix, options, sharded_);
    const std::string target = full_prefix("Saver", prefix, options.global_step);
    const std::lock_guard one_at_a_time(saving_);
    queue_.wait();
    if (sharded_) {
      save_shards(session, target, options);
    } else {
      save_here(session, target, options);
    }
    return target;
  }

  void restore(Session& session, std::string_view prefix) {
    queue_.wait();
    const CheckpointFiles files(prefix);
    for (const SaverItem& item : graph_.items) check_fits(item, files);
    std::vector<bool> restored(graph_.items.size());
    for (const SaverGraph::Shard& shard : graph_.writers()) {
      if (!restore_in_place(session, graph_, shard, files)) continue;
      for (const size_t index : shard.items) restored[index] = true;
    }
    restore_from_here(session, files, restored);
    if (list_.prefixes().empty()) recover_list(files.prefix());
  }

  CheckpointList& list() { return list_; }
  SaveQueue& queue() { return queue_; }

 private:
  // Reads the values of the items that are left, and sends them to their variables.
  void restore_from_here(Session& session, const CheckpointFiles& files,
                         const std::vector<bool>& restored) {
    const std::string directory = directory_of(files.prefix());
    TaskSource source(session, graph_, directory, directory);
    Feeds feeds;
    std::vector<Tensor> assignments;
    for (size_t i = 0; i < graph_.items.size(); ++i) {
      if (restored[i]) continue;
      const SaveItem& saved = graph_.items[i].saved;
      const Extent extent =
          saved.part ? saved.part->extent : whole_of(files.entry(saved.name).shape);
      feeds.push_back({graph_.restored[i], files.read(saved.name, extent, source)});
      assignments.push_back(graph_.restores[i]);
    }
    if (!assignments.empty()) session.run(assignments, feeds);
  }

  // One file, written by this process from values that come here.
  void save_here(Session& session, const std::string& prefix, const SaveOptions& options) {
    const std::vector<Tensor> values = session.run(graph_.values);
    std::vector<SaveItem> items;
    for (const SaverItem& item : graph_.items) items.push_back(item.saved);
    queue_.run(prefix, total_bytes(values), [=, this](BytesWritten& progress) {
      write_checkpoint(prefix, options.global_step, items, values, &progress);
      list_.keep(prefix, state_file(options), remove_checkpoint);
    });
  }

  // Each device keeps its values now, and writes them when asked to.
  void save_shards(Session& session, const std::string& prefix, const SaveOptions& options) {
    std::vector<Tensor> holds;
    for (const SaverGraph::Shard& shard : graph_.writers()) holds.push_back(shard.hold);
    int64_t total = 0;
    for (const Tensor& bytes : session.run(holds)) total += bytes.to<int64_t>();
    const auto runs = std::make_shared<ShardRuns>(session, graph_);
    queue_.run(prefix, total, [=, this](BytesWritten& progress) {
      runs->write(prefix, options.global_step);
      progress = total;
      list_.keep(prefix, state_file(options), [&](const std::string& dropped) {
        remove_saved(dropped,
                     [&](const auto& files) { return runs->remove(directory_of(dropped), files); });
      });
    });
  }

  // Goes on with the list of the program that saved `prefix`, when its directory's list has it.
  void recover_list(const std::string& prefix) {
    const auto state = get_checkpoint_state(directory_of(prefix));
    if (!state) return;
    const std::string path = resolved_path(prefix);
    const bool listed = std::ranges::any_of(
        state->all, [&](const std::string& other) { return resolved_path(other) == path; });
    if (listed) list_.recover(*state);
  }

  const bool sharded_;
  const SaverGraph graph_;
  CheckpointList list_;
  Turn saving_;      // of the thread that saves, which runs the session
  SaveQueue queue_;  // last: it ends first, and its saves use the rest
};

}  // namespace internal

using internal::SaverImpl;

Saver::Saver(const SaverOptions& options, Site site)
    : impl_(
          std::make_shared<SaverImpl>(internal::items_of(global_variables(), {}), options, site)) {}

Saver::Saver(const SaverVariables& variables, const SaverOptions& options, Site site)
    : Saver(std::span<const SavedPart>(), variables, options, site) {}

Saver::Saver(const SaverVariables& variables, std::initializer_list<SavedPart> parts,
             const SaverOptions& options, Site site)
    : Saver(std::span<const SavedPart>(parts), variables, options, site) {}

Saver::Saver(std::span<const SavedPart> parts, const SaverVariables& variables,
             const SaverOptions& options, Site site)
    : impl_(std::make_shared<SaverImpl>(internal::items_of(variables, parts), options, site)) {}

std::string Saver::save(Session& session, std::string_view prefix, const SaveOptions& options) {
  return impl_->save(session, prefix, options);
}

void Saver::restore(Session& session, std::string_view prefix) { impl_->restore(session, prefix); }

std::vector<std::string> Saver::last_checkpoints() const { return impl_->list().prefixes(); }

void Saver::recover_last_checkpoints(const std::vector<std::string>& prefixes) {
  impl_->list().recover(prefixes);
}

void Saver::wait() { impl_->queue().wait(); }
SaveProgress Saver::progress() const { return impl_->queue().progress(); }

}  // namespace cohort
