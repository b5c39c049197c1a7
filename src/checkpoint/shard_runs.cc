#include "checkpoint/shard_runs.h"

#include "base/log.h"
#include "base/raise.h"

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

// Who is asked for the file later: the task that the graph names, or else the one that answered.
std::string writer_of(const SaverGraph::Shard& shard, const WrittenShard& written) {
  const bool named = DeviceName::parse(shard.device).job.has_value();
  return named ? canonical_device(shard.device) : written.device;
}

}  // namespace

ShardRuns::ShardRuns(Session& session, const SaverGraph& graph)
    : graph_(graph), write_(writing(session, graph)) {
  for (const SaverGraph::Shard& shard : graph.writers()) {
    removers_.push_back({DeviceName::parse(canonical_device(shard.device)),
                         session.make_callable({shard.removed_paths}, {shard.removed})});
  }
}

Manifest ShardRuns::write(const std::string& prefix, std::optional<int64_t> step) const {
  const std::span<const SaverGraph::Shard> writers = graph_.writers();
  const std::string folder = folder_of(prefix);
  const std::string id = random_id();
  std::vector<SavedFile> files;
  std::vector<Tensor> paths;
  for (size_t i = 0; i < writers.size(); ++i) {
    files.push_back({.name = data_file_name(prefix, id, i, writers.size()),
                     .device = canonical_device(writers[i].device)});
    paths.emplace_back(in_folder(folder, files[i].name));
  }
  std::vector<Tensor> reports;
  const Status status = capture_status([&] { reports = write_(paths); });
  if (!status.ok()) {
    remove(folder, files);
    throw Error(status);
  }
  Manifest manifest = new_manifest(step);
  for (size_t i = 0; i < writers.size(); ++i) {
    const WrittenShard written = parse_shard_report(reports[i].to<std::string>(), files[i].device);
    files[i].device = writer_of(writers[i], written);
    add_shard(manifest, files[i], written, graph_.items_of(writers[i]));
  }
  return manifest;
}

namespace {

// Runs `remove`; what prevents it is a warning.
template <typename Remove>
void try_to_remove(const std::string& what, const Remove& remove) {
  const Status status = capture_status(remove);
  if (!status.ok()) log_warning("[Saver] {} stays: {}", what, status.to_string());
}

}  // namespace

void ShardRuns::remove(const std::string& folder, const std::vector<SavedFile>& files) const {
  std::vector<SavedFile> elsewhere;
  try_to_remove(folder, [&] { elsewhere = remove_local_files(folder, files); });
  for (const SavedFile& file : elsewhere) {
    const std::string path = in_folder(folder, file.name);
    const auto writer = DeviceName::try_parse(file.device);
    for (const Remover& remover : removers_) {
      if (!writer || !remover.device.same_task(*writer)) continue;
      try_to_remove(fmt::format("'{}' of {}", path, file.device),
                    [&] { remover.run({Tensor({path})}); });
    }
  }
}

}  // namespace cohort::internal
