#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/tensor.h"
#include "cohort/values.h"

// What tasks compute together: reductions, broadcasts, gathers.

namespace cohort {

namespace internal {
class CollectiveGroup;
class PackMemory;
struct CollectiveAccess;
}  // namespace internal

// How one call behaves. Results never depend on it.
struct CollectiveOptions {
  // How long the call may wait for the others. It then throws DeadlineExceeded with the names of
  // those who are missing, and the group is closed, because the members no longer know who has got
  // how far. Without: as long as all members live; after 5 s, and then now and again, the log says
  // who is missing and what they were last doing.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

// Tensors of one dtype side by side in memory that the members of a group share, where they share a
// host: an all-reduce then takes the values from where they were written and puts the results
// there, which is several times as quick as one of tensors. For gradients, which are written there
// directly. A handle: copies share the memory. The content is zero at first. Not for two threads at
// the same time.
class Pack {
 public:
  Pack() = default;

  size_t size() const;  // number of tensors
  DType dtype() const;
  const Shape& shape(size_t index) const;
  // Whether the members reach each other's memory; otherwise an all-reduce sends copies.
  bool is_shared() const;

  // The elements of a tensor, in row-major order, to be read and written. T must be the dtype's own
  // type (InvalidArgument); and so is an index that does not exist.
  template <TensorElement T>
  std::span<T> data(size_t index) {
    return {static_cast<T*>(elements(dtype_of<T>, index)),
            static_cast<size_t>(shape(index).num_elements())};
  }

  // Copies `value`, which must have the dtype and the shape (InvalidArgument).
  void write(size_t index, const Tensor& value);
  // A copy of what is there now.
  Tensor read(size_t index) const;
  // A tensor in the pack's memory, without a copy: only while no member writes, so not beyond the
  // next write or all-reduce.
  Tensor view(size_t index) const;

 private:
  friend struct internal::CollectiveAccess;
  void* elements(DType wanted, size_t index) const;

  std::shared_ptr<internal::PackMemory> memory_;
};

// A fixed group of tasks that compute together; this task is one of them, its rank. A handle:
// copies mean the same group. The last one leaves the group.
//
// Every member makes the same calls in the same order. Before values are combined the members
// compare call number, operation, dtype and shape: a difference throws FailedPrecondition with both
// calls and ranks, on every member, instead of hanging. (A member that had nothing to wait for, as
// the root of a broadcast, gets it from its next call.) So does a call that one member cannot make,
// for its arguments, unless that one makes another in its place within two seconds.
//
// Results are bit-identical on every member and from run to run. 16-bit floats are computed as
// float32. Bools have Min and Product ("all") and Max ("any"); counting them needs a cast.
//
// Losing a member closes the group: this and every later call throws Unavailable with the lost
// task's name and origin. Make a new group to go on. Thread-safe; calls of several threads run in
// the order in which they were made.
class Communicator {
 public:
  Communicator() = default;

  bool defined() const { return group_ != nullptr; }
  int rank() const;
  int size() const;
  // The name of a member: "/job:worker/replica:0/task:1". Throws InvalidArgument.
  std::string member(int rank) const;
  // How the members reach each other: "shared-memory", "messages", "two-level", "alone".
  std::string kind() const;

  // The reduction of all members' values, on every member. Mean divides by size(), and integers
  // become floating.
  Tensor all_reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                    const CollectiveOptions& options = {});
  // Many at once, of any dtypes: few messages instead of one for each.
  std::vector<Tensor> all_reduce(const std::vector<Tensor>& values, ReduceOp op = ReduceOp::Sum,
                                 const CollectiveOptions& options = {});
  // Members send rows, not tables: all members' rows in the order of the ranks, duplicates kept.
  // Sum and Mean only (InvalidArgument). Numbers of rows may differ, the rest of the shape not.
  IndexedSlices all_reduce(const IndexedSlices& rows, ReduceOp op = ReduceOp::Sum,
                           const CollectiveOptions& options = {});
  // Reduces in place, in the packs of all members, which this group made. Throws InvalidArgument
  // for the Mean of a pack of integers.
  void all_reduce(Pack& pack, ReduceOp op = ReduceOp::Sum, const CollectiveOptions& options = {});

  // Memory for tensors of these shapes. A call that all members make.
  Pack make_pack(DType dtype, std::vector<Shape> shapes, const CollectiveOptions& options = {});

  // The root's `value`, on every member. The others give one of the same dtype and shape, whose
  // elements do not matter.
  Tensor broadcast(const Tensor& value, int root = 0, const CollectiveOptions& options = {});
  // The reduction on the root; an undefined tensor elsewhere.
  Tensor reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum, int root = 0,
                const CollectiveOptions& options = {});
  // The values of all members, one after the other along the first dimension, whose sizes may
  // differ.
  Tensor all_gather(const Tensor& value, const CollectiveOptions& options = {});
  // Part rank() of the reduction: its rows are dealt out in equal parts, in the order of the ranks.
  // The number of rows must be a multiple of size() (InvalidArgument).
  Tensor reduce_scatter(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                        const CollectiveOptions& options = {});
  // parts[k] goes to rank k; the result has one from each, in the order of the ranks. One part for
  // each member (InvalidArgument), defined, of any dtypes and shapes.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& parts,
                                 const CollectiveOptions& options = {});
  // Returns when every member has called it.
  void barrier(const CollectiveOptions& options = {});

  // From one member to another, apart from the order of the other calls. Values with one tag arrive
  // in the order of sending. Any dtype and shape. `send` does not wait for the receiver.
  void send(const Tensor& value, int to, uint32_t tag = 0);
  Tensor receive(int from, uint32_t tag = 0, const CollectiveOptions& options = {});

  // The same calls without waiting: they run on a thread of the group, in the order of all calls.
  // The future gives the result or throws what the call would have. A pack, and the options, must
  // stay until then.
  std::future<Tensor> start_all_reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                                       const CollectiveOptions& options = {});
  std::future<void> start_all_reduce(Pack& pack, ReduceOp op = ReduceOp::Sum,
                                     const CollectiveOptions& options = {});
  std::future<Tensor> start_broadcast(const Tensor& value, int root = 0,
                                      const CollectiveOptions& options = {});
  std::future<Tensor> start_all_gather(const Tensor& value, const CollectiveOptions& options = {});

  // A group of the members that give the same colour, ordered by `key`, then by rank. A call that
  // all members make. It lives on when this group closes.
  Communicator split(int colour, int key = 0, const CollectiveOptions& options = {});
  // A group of these ranks, in this order. A call that the members of the new group make, with the
  // same list, and no other member. Throws InvalidArgument unless the list is without duplicates
  // and has this member.
  Communicator subgroup(const std::vector<int>& ranks, const CollectiveOptions& options = {});

  // Measures for some milliseconds which algorithm is the quickest for which size, and uses that
  // from here on. A call that all members make.
  void calibrate(const CollectiveOptions& options = {});

  // Leaves. Calls of others that need this member throw Unavailable with its name. Harmless when
  // the group is closed.
  void close();

 private:
  friend struct internal::CollectiveAccess;
  std::shared_ptr<internal::CollectiveGroup> group_;
};

// A group whose members are threads of this process: element k is rank k.
std::vector<Communicator> make_local_group(int size);

}  // namespace cohort
