#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/arithmetic.h"
#include "collectives/call.h"
#include "collectives/packing.h"

namespace cohort::internal {

class CollectiveGroup;

// The ways to all-reduce.
enum class Algorithm {
  // In shared memory: every member adds up everything, or only its slice, which the others copy.
  Everything,
  Slices,
  // By messages: see algorithms.h.
  Doubling,
  HalvingDoubling,
  Ring,
};
std::string_view name_of(Algorithm algorithm);

// How far apart the members are.
enum class Distance { SharedMemory, SameHost, Network };

// Which algorithm is used for how many bytes. The default tables were measured once; calibrating a
// group writes a row for each size that it tries.
struct AlgorithmTable {
  struct Row {
    size_t up_to_bytes;
    Algorithm algorithm;
  };
  std::vector<Row> rows;  // by size; the last one is for everything beyond, too

  Algorithm choose(size_t bytes) const;
};

AlgorithmTable default_table(Distance distance, int members);
// The algorithms that are possible at that distance.
std::vector<Algorithm> candidates(Distance distance);

// Carries out the calls of a group: by messages, and where members are near each other or have a
// library for it, in shared memory, with MPI or with NCCL. Those engines inherit the calls that
// they do not do better. Called by one thread at a time, in the order of the calls, with the same
// call on every member. Throws if the members' calls differ, if a member is lost, and at the call's
// deadline.
class Engine {
 public:
  Engine(CollectiveGroup& group, Distance distance);
  virtual ~Engine() = default;
  virtual std::string_view kind() const;
  // Whether values may be in the memory of GPUs.
  virtual bool takes_gpus() const { return false; }

  // The numbers of a call are of call.dtype, results of reduced_dtype(call.op, call.dtype).
  virtual void all_reduce(const Call& call, const Buffer& values, std::byte* out);
  // `out` is written on the root only.
  virtual void reduce(const Call& call, const Buffer& values, std::byte* out);
  // One of size() equal parts of the elements.
  virtual void reduce_scatter(const Call& call, const Buffer& values, std::byte* out);
  virtual void broadcast(const Call& call, const Buffer& values, std::byte* out);
  // `allocate` gets each member's number of bytes and returns memory for all, in the order of
  // ranks.
  using Allocate = std::function<std::byte*(std::span<const size_t> bytes)>;
  virtual void all_gather(const Call& call, const Buffer& own, const Allocate& allocate);
  // parts[k] goes to rank k.
  using Parts = std::vector<std::vector<Buffer>>;
  Parts all_to_all(const Call& call, Parts parts);
  virtual void barrier(const Call& call);

  // Memory for a pack, zeroed.
  virtual void allocate(const Call& call, PackMemory& pack);
  // In place.
  virtual void all_reduce(const Call& call, PackMemory& pack);

  // The group ends, on any thread, perhaps during a call. For engines that have groups of their
  // own.
  virtual void group_failed(const Status&) {}
  virtual void group_left() {}

  // Which algorithm all_reduce uses; may be changed between calls, by all members alike.
  AlgorithmTable table;
  std::vector<Algorithm> algorithms() const { return candidates(distance_); }

 protected:
  // Reductions of several members; never Mean, which is a sum that is divided in the end.
  virtual void combine_all(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_on_root(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_parts(const Call& call, const Numbers& numbers, std::byte* out);

  CollectiveGroup& group_;

 private:
  using Combine = void (Engine::*)(const Call& call, const Numbers& numbers, std::byte* out);
  void reduce_into(const Call& call, const Buffer& values, size_t bytes, std::byte* out,
                   Combine combine);

  const Distance distance_;
};

// For members on several hosts: reduces inside each host first, then between one member of each
// host, then hands the results out inside each host. `hosts` has the ranks on each host.
std::unique_ptr<Engine> make_two_level_engine(CollectiveGroup& group,
                                              const std::vector<std::vector<int>>& hosts);

}  // namespace cohort::internal
