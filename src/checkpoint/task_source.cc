#include "checkpoint/task_source.h"

#include <algorithm>
#include <cstring>

#include "base/raise.h"
#include "base/text.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/saving.h"
#include "tensor/memory.h"

namespace cohort::internal {

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
        "[Saver] no task has '{}', which {} wrote; asked {}. Copy it to one of them, or name the "
        "task that has it in SaverOptions::shard_devices",
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
