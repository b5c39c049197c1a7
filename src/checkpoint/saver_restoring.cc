#include "checkpoint/saver_restoring.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "checkpoint/durable_file.h"
#include "tensor/memory.h"

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
  if (!shard.wrote(file)) return false;
  const Status status = capture_status([&] {
    session.run(shard.restore, {{shard.path, Tensor(files.path_of(file))},
                                {shard.load_request, Tensor::from(load_request(file, slices))}});
  });
  if (status.ok()) return true;
  if (status.code != Code::NotFound && status.code != Code::DataLoss) throw Error(status);
  log_info("[Saver] {} cannot restore from its own file: {}", shard.device, status.to_string());
  return false;
}

TaskSource::TaskSource(Session& session, const SaverGraph& graph, const std::string& here,
                       const std::string& there)
    : session_(session), graph_(graph), directory_there_(there), local_(here) {}

bool TaskSource::is_here(const SavedFile& file) const {
  return file_exists(in_directory(local_.directory(), file.name));
}

Tensor TaskSource::ask(const SaverGraph::Shard& shard, const SavedFile& file, uint64_t begin,
                       uint64_t size) {
  const std::vector<int64_t> request{static_cast<int64_t>(file.size),
                                     static_cast<int64_t>(file.header_crc32c),
                                     static_cast<int64_t>(begin), static_cast<int64_t>(size)};
  return session_.run(shard.read_bytes,
                      {{shard.path, Tensor(in_directory(directory_there_, file.name))},
                       {shard.read_request, Tensor::from(request)}});
}

const SaverGraph::Shard& TaskSource::holder_of(const SavedFile& file) {
  const std::lock_guard one_at_a_time(asking_);
  const SaverGraph::Shard*& holder = holders_[file.name];
  if (holder != nullptr) return *holder;
  std::vector<const SaverGraph::Shard*> order;
  for (const SaverGraph::Shard& shard : graph_.shards) order.push_back(&shard);
  std::stable_partition(order.begin(), order.end(),
                        [&](const SaverGraph::Shard* shard) { return shard->wrote(file); });
  std::vector<std::string> asked{"this process"};
  for (const SaverGraph::Shard* shard : order) {
    const Status status = capture_status([&] { ask(*shard, file, 0, 0); });
    if (status.ok()) return *(holder = shard);
    if (status.code != Code::NotFound) throw Error(status);
    asked.push_back(shard->device);
  }
  raise(Code::NotFound,
        "[Saver] no task has '{}', which {} wrote; asked {}. Copy the file to one of these tasks, "
        "or name the task that has the file in SaverOptions::shard_devices",
        in_directory(directory_there_, file.name), file.device, quoted_list(asked));
}

void TaskSource::check(const SavedFile& file, const SavedSlice& slice) {
  if (is_here(file)) {
    local_.check(file, slice);
  } else {
    holder_of(file);
  }
}

void TaskSource::read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) {
  if (is_here(file)) {
    local_.read(file, slice, into);
    return;
  }
  const Tensor bytes = ask(holder_of(file), file, slice.begin, slice.size);
  if (bytes.size() != static_cast<int64_t>(into.size())) {
    raise(Code::Internal, "[Saver] asked for {} bytes of '{}', got {}", into.size(), file.name,
          bytes.size());
  }
  if (!into.empty()) std::memcpy(into.data(), element_bytes(bytes), into.size());
}

}  // namespace cohort::internal
