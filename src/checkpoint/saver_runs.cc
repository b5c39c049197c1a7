#include "checkpoint/saver_runs.h"

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/saving.h"

namespace cohort::internal {
namespace {

Callable writing(Session& session, const SaverGraph& graph) {
  std::vector<Tensor> paths;
  std::vector<Tensor> reports;
  for (const SaverGraph::Shard& shard : graph.writers()) {
    paths.push_back(shard.path);
    reports.push_back(shard.report);
  }
  return session.make_callable(paths, reports);
}

// The task that is asked for the file later: the one that the graph names, otherwise the one that
// answered.
std::string writer_of(const SaverGraph::Shard& shard, const WrittenShard& written) {
  const bool named = DeviceName::parse(shard.device).job.has_value();
  return named ? canonical_device(shard.device) : written.device;
}

// Whether `remove` succeeds; what prevents it is a warning.
template <typename Remove>
bool try_to_remove(const std::string& what, const Remove& remove) {
  const Status status = capture_status(remove);
  if (!status.ok()) log_warning("[Saver] cannot remove {}: {}", what, status.to_string());
  return status.ok();
}

}  // namespace

ShardRuns::ShardRuns(Session& session, const SaverGraph& graph)
    : graph_(graph), write_(writing(session, graph)) {
  for (const SaverGraph::Shard& shard : graph.writers()) {
    removers_.push_back(session.make_callable({shard.removed_paths}, {shard.removed}));
  }
}

void ShardRuns::write(const std::string& prefix, std::optional<int64_t> step) const {
  const std::string directory = directory_of(prefix);
  const std::string id = random_id();
  const std::span<const SaverGraph::Shard> writers = graph_.writers();
  std::vector<SavedFile> files;
  for (size_t i = 0; i < writers.size(); ++i) {
    files.push_back({.name = data_file_name(prefix, id, i, writers.size()),
                     .device = canonical_device(writers[i].device)});
  }
  save_files({.prefix = prefix,
              .id = id,
              .files = files,
              .remove = [&](const auto& unused) { return remove(directory, unused); },
              .write = [&] { return write_files(directory, files, step); }});
}

Manifest ShardRuns::write_files(const std::string& directory, std::vector<SavedFile> files,
                                std::optional<int64_t> step) const {
  const std::span<const SaverGraph::Shard> writers = graph_.writers();
  std::vector<Tensor> paths;
  for (const SavedFile& file : files) paths.emplace_back(in_directory(directory, file.name));
  const std::vector<Tensor> reports = write_(paths);
  Manifest manifest = new_manifest(step);
  for (size_t i = 0; i < writers.size(); ++i) {
    const WrittenShard written = parse_shard_report(reports[i].to<std::string>(), files[i].device);
    files[i].device = writer_of(writers[i], written);
    add_shard(manifest, files[i], written, graph_.items_of(writers[i]));
  }
  return manifest;
}

bool ShardRuns::remove(const std::string& directory, const std::vector<SavedFile>& files) const {
  std::vector<SavedFile> elsewhere;
  bool all = try_to_remove(directory, [&] { elsewhere = remove_local_files(directory, files); });
  for (const SavedFile& file : elsewhere) {
    const std::string path = in_directory(directory, file.name);
    for (size_t i = 0; i < removers_.size(); ++i) {
      if (!graph_.shards[i].wrote(file)) continue;
      all &= try_to_remove(fmt::format("'{}' of {}", path, file.device),
                           [&] { removers_[i]({Tensor({path})}); });
    }
  }
  return all;
}

}  // namespace cohort::internal
