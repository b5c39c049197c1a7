#pragma once

#include <functional>
#include <memory>
#include <span>

#include "collectives/algorithm_table.h"
#include "collectives/call.h"
#include "collectives/pack_memory.h"
#include "transport/message.h"

namespace cohort::internal {

class CollectiveGroup;

// Carries out the calls of a group: by messages, in shared memory, with MPI. Called by one thread
// at a time, in the order of the calls, with the same call on every member. Throws if the members'
// calls differ, if a member is lost, and at the call's deadline.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view kind() const = 0;
  // Whether values may be in the memory of GPUs.
  virtual bool takes_gpus() const { return false; }

  // The numbers of a call are of call.dtype, results of reduced_dtype(call.op, call.dtype).
  virtual void all_reduce(const Call& call, const Buffer& values, std::byte* out) = 0;
  // `out` is written on the root only.
  virtual void reduce(const Call& call, const Buffer& values, std::byte* out) = 0;
  // One of size() equal parts of the elements.
  virtual void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) = 0;
  virtual void broadcast(const Call& call, const Buffer& values, std::byte* out) = 0;
  // `allocate` gets each member's number of bytes and returns memory for all, in the order of
  // ranks.
  using Allocate = std::function<std::byte*(std::span<const size_t> bytes)>;
  virtual void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) = 0;
  // parts[k] goes to rank k.
  using Parts = std::vector<std::vector<Buffer>>;
  virtual Parts all_to_all(const Call& call, Parts parts) = 0;
  virtual void barrier(const Call& call) = 0;

  // Memory for a pack, zeroed.
  virtual void allocate(const Call& call, PackMemory& pack) = 0;
  // In place.
  virtual void all_reduce(const Call& call, PackMemory& pack) = 0;

  // The group ends, on any thread, perhaps during a call. For engines that have groups of their
  // own.
  virtual void group_failed(const Status&) {}
  virtual void group_left() {}

  // Which algorithm all_reduce uses; may be changed between calls, by all members alike.
  AlgorithmTable table;
  virtual std::vector<Algorithm> algorithms() const = 0;
};

std::unique_ptr<Engine> make_message_engine(CollectiveGroup& group, Distance distance);

// For members on several hosts: reduces inside each host first, then between one member of each
// host, then hands the results out inside each host. `hosts` has the ranks on each host.
std::unique_ptr<Engine> make_two_level_engine(CollectiveGroup& group,
                                              const std::vector<std::vector<int>>& hosts);

}  // namespace cohort::internal
