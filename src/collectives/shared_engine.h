#pragma once

#include "collectives/message_engine.h"
#include "collectives/shared_segment.h"
#include "collectives/staging.h"

namespace cohort::internal {

// For members on one host: values are written once into memory that all members map, and reduced
// from there. Members may be threads of one process.
class SharedEngine : public MessageEngine {
 public:
  // The bytes that a group of that many members needs.
  static size_t segment_bytes(int members);
  SharedEngine(CollectiveGroup& group, std::shared_ptr<SharedSegment> segment);

  std::string_view kind() const override { return "shared-memory"; }
  void all_reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) override;
  void broadcast(const Call& call, const Buffer& values, std::byte* out) override;
  void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) override;
  void barrier(const Call& call) override;
  void allocate(const Call& call, PackMemory& pack) override;
  void all_reduce(const Call& call, PackMemory& pack) override;
  std::vector<Algorithm> algorithms() const override { return candidates(Distance::SharedMemory); }

 private:
  const std::shared_ptr<SharedSegment> segment_;
  SharedBoard board_;
  Staging staging_;
};

}  // namespace cohort::internal
