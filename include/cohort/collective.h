#pragma once

#include <future>

#include "cohort/cross_device_ops.h"
#include "cohort/values.h"

// Collective operations of several tasks: reductions, broadcasts, gathers.

namespace cohort {

// Pack holds tensors of one dtype side by side, in memory that the members of a group share if they
// share a host. An all-reduce then takes the values from where they were written and puts the
// results there, which is several times as fast as an all-reduce of tensors. It suits gradients,
// which can be written there directly. Communicator::make_pack() returns one.
//
//   std::vector<Communicator> group = make_local_group(1);
//   Pack pack = group[0].make_pack(kFloat32, {{2, 3}, {3}});
//   pack.data<float>(1)[0] = 4.f;
//   group[0].all_reduce(pack);
//
// A Pack is a handle: copies share the memory, at first zeros. Not for two threads at a time.
class Pack {
 public:
  Pack() = default;

  size_t size() const;  // number of tensors
  DType dtype() const;
  const Shape& shape(size_t index) const;
  // Whether the members reach each other's memory; if not, an all-reduce sends copies.
  bool is_shared() const;

  // Returns the elements of a tensor, in row-major order, for reading and writing. Throws
  // InvalidArgument if T is not the type of the dtype, or if the index does not exist.
  template <TensorElement T>
  std::span<T> data(size_t index) {
    return {static_cast<T*>(elements(dtype_of<T>, index)),
            static_cast<size_t>(shape(index).num_elements())};
  }

  // Copies `value` into the pack. Throws InvalidArgument if its dtype or shape differs.
  void write(size_t index, const Tensor& value);
  // Returns a copy of the current elements.
  Tensor read(size_t index) const;
  // Returns a tensor in the pack's memory, without a copy. It is valid while no member writes:
  // until the next write or all-reduce.
  Tensor view(size_t index) const;

 private:
  friend struct internal::CollectiveAccess;
  void* elements(DType wanted, size_t index) const;

  std::shared_ptr<internal::PackMemory> memory_;
};

// Communicator is this task's membership in a fixed group of tasks that compute together. The
// task's number in the group is its rank. MultiWorkerMirroredStrategy::communicator(),
// make_mpi_group() and make_local_group() return Communicators.
//
//   std::vector<Communicator> group = make_local_group(2);
//   std::future<Tensor> first = group[0].start_all_reduce(Tensor({1.f, 2.f}));
//   const Tensor sum = group[1].all_reduce(Tensor({3.f, 4.f}));  // [4, 6] on both
//
// A Communicator is a handle: copies mean the same membership, and the last copy leaves the group.
// Thread-safe; calls of several threads run in the order in which they were made.
//
// Every member makes the same calls in the same order. Before members combine values, they compare
// call number, operation, dtype and shape. If the calls differ, every member throws
// FailedPrecondition with both calls and their ranks instead of hanging. (A member that had nothing
// to wait for, such as the root of a broadcast, throws at its next call.) The same happens if one
// member's arguments are invalid, unless that member issues a corrected call within two seconds.
//
// Results are bit-identical on every member and from run to run. 16-bit floats are computed as
// float32. Bools support Min and Product ("all") and Max ("any"); cast them to count them.
//
// A call that waits longer than CommunicationOptions::timeout throws DeadlineExceeded with the
// names of the missing members, and closes the group, because its members no longer know how far
// each has come. Without a timeout the call waits as long as all members live; after 5 s, and again
// later, the log names the missing members and what they were last doing. A Communicator uses no
// other field of the options.
//
// The loss of a member closes the group: this call and every later one throw Unavailable with the
// name of the lost task, also as the error's origin. Make a new group to go on.
class Communicator {
 public:
  Communicator() = default;

  bool defined() const { return group_ != nullptr; }
  int rank() const;
  int size() const;
  // The name of a member: "/job:worker/replica:0/task:1". InvalidArgument for an unknown rank.
  std::string member(int rank) const;
  // How members reach each other: "shared-memory", "messages", "two-level", "mpi", "nccl", "alone".
  std::string kind() const;

  // Returns the reduction of all members' values, on every member. Mean divides by size(), and
  // makes floats from integers.
  Tensor all_reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                    const CommunicationOptions& options = {});
  // Reduces many tensors of any dtypes in a few messages.
  std::vector<Tensor> all_reduce(const std::vector<Tensor>& values, ReduceOp op = ReduceOp::Sum,
                                 const CommunicationOptions& options = {});
  // Returns the rows of all members in the order of the ranks, with their duplicates, on every
  // member. Members send only these rows. Numbers of rows may differ, the rest of the shape must
  // not. Throws InvalidArgument unless `op` is Sum or Mean.
  IndexedSlices all_reduce(const IndexedSlices& rows, ReduceOp op = ReduceOp::Sum,
                           const CommunicationOptions& options = {});
  // Reduces the packs of all members in place. The packs come from this group. Throws
  // InvalidArgument for the Mean of a pack of integers.
  void all_reduce(Pack& pack, ReduceOp op = ReduceOp::Sum,
                  const CommunicationOptions& options = {});

  // Returns a pack for tensors of these shapes. All members make this call.
  Pack make_pack(DType dtype, std::vector<Shape> shapes, const CommunicationOptions& options = {});

  // Returns the root's `value`, on every member. The other members give a value of the same dtype
  // and shape, whose elements do not matter.
  Tensor broadcast(const Tensor& value, int root = 0, const CommunicationOptions& options = {});
  // Returns the reduction on the root, and an undefined tensor on the other members.
  Tensor reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum, int root = 0,
                const CommunicationOptions& options = {});
  // Concatenates the values of all members along the first dimension, whose sizes may differ.
  Tensor all_gather(const Tensor& value, const CommunicationOptions& options = {});
  // Returns part rank() of the reduction, whose rows are divided into size() equal parts in the
  // order of the ranks. Throws InvalidArgument if the number of rows is not a multiple of size().
  Tensor reduce_scatter(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                        const CommunicationOptions& options = {});
  // Sends parts[k] to rank k; returns the parts that all ranks sent to this one, in the order of
  // the ranks. The parts must be defined, of any dtypes and shapes. Throws InvalidArgument unless
  // there is one part for each member.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& parts,
                                 const CommunicationOptions& options = {});
  // Returns when every member has called it.
  void barrier(const CommunicationOptions& options = {});

  // Send any value from one member to another, apart from the order of the other calls. Values with
  // the same tag arrive in the order of sending. `send` does not wait for the receiver.
  void send(const Tensor& value, int to, uint32_t tag = 0);
  Tensor receive(int from, uint32_t tag = 0, const CommunicationOptions& options = {});

  // The same calls without waiting: they run on a thread of the group, in the order of all calls.
  // The future returns or throws what the call would have. Leave a pack alone until then.
  std::future<Tensor> start_all_reduce(const Tensor& value, ReduceOp op = ReduceOp::Sum,
                                       const CommunicationOptions& options = {});
  std::future<void> start_all_reduce(Pack& pack, ReduceOp op = ReduceOp::Sum,
                                     const CommunicationOptions& options = {});
  std::future<Tensor> start_broadcast(const Tensor& value, int root = 0,
                                      const CommunicationOptions& options = {});
  std::future<Tensor> start_all_gather(const Tensor& value,
                                       const CommunicationOptions& options = {});

  // Returns a group of the members that give the same colour, ordered by `key`, then by rank. All
  // members make this call. The new group lives on if this one closes.
  Communicator split(int colour, int key = 0, const CommunicationOptions& options = {});
  // Returns a group of these ranks, in this order. Its members, and no others, make this call with
  // the same list. Throws InvalidArgument if the list has duplicates or lacks this member.
  Communicator subgroup(const std::vector<int>& ranks, const CommunicationOptions& options = {});

  // Measures for some milliseconds which algorithm is the fastest for which size, and uses it from
  // then on. All members make this call.
  void calibrate(const CommunicationOptions& options = {});

  // Leaves the group. Calls of other members that need this member throw Unavailable with its name.
  // Does nothing if the group is closed.
  void close();

 private:
  friend struct internal::CollectiveAccess;
  std::shared_ptr<internal::CollectiveGroup> group_;
};

// Returns a group whose members are threads of this process: element k is rank k.
std::vector<Communicator> make_local_group(int size);

}  // namespace cohort
