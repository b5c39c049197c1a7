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

// How a group's members do their calls together: by messages, in shared memory, with MPI. Called by
// one thread at a time, in the order of the calls, with the same call on every member. Throws when
// the members differ, when one is lost, and at the call's deadline.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view way() const = 0;
  // Whether values may be in the memory of GPUs.
  virtual bool takes_gpus() const { return false; }

  // The numbers of a call are of call.dtype, results of reduced_dtype(call.op, call.dtype).
  virtual void all_reduce(const Call& call, const Buffer& values, std::byte* out) = 0;
  // `out` is written on the root only.
  virtual void reduce(const Call& call, const Buffer& values, std::byte* out) = 0;
  // One of size() equal parts of the elements.
  virtual void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) = 0;
  virtual void broadcast(const Call& call, const Buffer& values, std::byte* out) = 0;
  // `allocate` gets everybody's number of bytes and gives memory for all, one after the other.
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

  // The group ends, on any thread, perhaps during a call: for engines with groups of their own.
  virtual void group_failed(const Status&) {}
  virtual void group_left() {}

  // Which algorithm all_reduce uses; may be changed between calls, by all members alike.
  AlgorithmTable table;
  virtual std::vector<Algorithm> algorithms() const = 0;
};

std::unique_ptr<Engine> make_message_engine(CollectiveGroup& group, Distance distance);

}  // namespace cohort::internal
