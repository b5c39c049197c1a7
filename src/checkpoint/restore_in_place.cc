#include "checkpoint/restore_in_place.h"

#include <algorithm>

#include "base/log.h"

namespace cohort::internal {
namespace {

// The slice that is exactly the item; null when it was cut differently.
const SavedSlice* slice_for(const SaveItem& item, const CheckpointFiles& files) {
  const SavedEntry& entry = files.entry(item.name);
  const Extent wanted = item.part ? item.part->extent : whole_of(entry.shape);
  const auto found = std::find_if(entry.slices.begin(), entry.slices.end(),
                                  [&](const SavedSlice& slice) { return slice.extent == wanted; });
  return found != entry.slices.end() ? &*found : nullptr;
}

// The items' slices, when all are in one file; else nothing.
std::vector<const SavedSlice*> slices_in_one_file(const std::vector<SaveItem>& items,
                                                  const CheckpointFiles& files) {
  std::vector<const SavedSlice*> slices;
  for (const SaveItem& item : items) {
    const SavedSlice* slice = slice_for(item, files);
    if (slice == nullptr || (!slices.empty() && slice->file != slices[0]->file)) return {};
    slices.push_back(slice);
  }
  return slices;
}

bool wrote(const SaverGraph::Shard& shard, const SavedFile& file) {
  const auto writer = DeviceName::try_parse(file.device);
  return writer && DeviceName::parse(canonical_device(shard.device)).same_task(*writer);
}

std::vector<int64_t> load_request(const SavedFile& file,
                                  const std::vector<const SavedSlice*>& slices) {
  std::vector<int64_t> request{static_cast<int64_t>(file.size),
                               static_cast<int64_t>(file.header_crc32c)};
  for (const SavedSlice* slice : slices) {
    request.push_back(static_cast<int64_t>(slice->begin));
    request.push_back(static_cast<int64_t>(slice->size));
    request.push_back(static_cast<int64_t>(slice->crc32c));
  }
  return request;
}

}  // namespace

bool restore_in_place(Session& session, const SaverGraph& graph, const SaverGraph::Shard& shard,
                      const CheckpointFiles& files) {
  const std::vector<const SavedSlice*> slices = slices_in_one_file(graph.items_of(shard), files);
  if (slices.empty() || !shard.restore.defined()) return false;
  const SavedFile& file = files.manifest().files[slices[0]->file];
  if (!wrote(shard, file)) return false;
  const Status status = capture_status([&] {
    session.run(shard.restore, {{shard.path, Tensor(files.path_of(file))},
                                {shard.load_request, Tensor::from(load_request(file, slices))}});
  });
  if (status.ok()) return true;
  if (status.code != Code::NotFound && status.code != Code::DataLoss) throw Error(status);
  log_info("[Saver] {} does not restore from its own file: {}", shard.device, status.to_string());
  return false;
}

}  // namespace cohort::internal
