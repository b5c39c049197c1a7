#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "cohort/collective.h"
#include "collectives/call.h"
#include "collectives/communicator_access.h"
#include "collectives/engine.h"
#include "collectives/tensor_collectives.h"

namespace cohort {

namespace internal {

CollectiveGroup& CollectiveAccess::group(const Communicator& communicator) {
  if (communicator.group_ == nullptr) {
    raise(Code::FailedPrecondition,
          "[Communicator] an empty communicator has no group; assign it what "
          "MultiWorkerMirroredStrategy::communicator(), make_mpi_group() or make_local_group() "
          "returns");
  }
  return *communicator.group_;
}

Deadline deadline_of(const CommunicationOptions& options) {
  check(options);
  const auto limit = endless_if_zero(options.timeout);
  return limit ? deadline_after(*limit) : Deadline::max();
}

Communicator make_communicator(std::shared_ptr<Links> links, const GroupSettings& settings) {
  std::vector<int> members(static_cast<size_t>(links->group().size()));
  std::iota(members.begin(), members.end(), 0);
  // Messages begin with the number of their group: those of other generations are not read.
  const uint64_t id = links->group().generation;
  return CollectiveAccess::make(
      CollectiveGroup::open(std::move(links), id, std::move(members), settings));
}

}  // namespace internal

using namespace internal;  // NOLINT: what the calls consist of

namespace {

void check_rank(const CollectiveGroup& group, int rank, std::string_view what) {
  if (rank >= 0 && rank < group.size()) return;
  internal::raise(Code::InvalidArgument, "[Communicator] {} is rank {}; the ranks are 0 to {}",
                  what, rank, group.size() - 1);
}

// The call that `make` makes for the group. If `make` throws, the call is invalid.
template <typename Make>
Call make_call(CollectiveGroup& group, const Make& make, const CommunicationOptions& options) {
  return or_refuse(group, [&] {
    Call call = make(group);
    call.deadline = deadline_of(options);
    return call;
  });
}

// Runs the call with the next number now, as run(group, call, args...).
template <typename Make, typename Run, typename... Args>
auto run_now(const Communicator& members, const Make& make, const CommunicationOptions& options,
             const Run& run, Args&... args) {
  CollectiveGroup& group = CollectiveAccess::group(members);
  Call call = make_call(group, make, options);
  call.number = group.next_number();
  return run(group, call, args...);
}

// The same on the group's thread, which keeps `value`.
template <typename Make, typename Run, typename Value>
auto run_later(const Communicator& members, const Make& make, const CommunicationOptions& options,
               const Run& run, Value value) {
  CollectiveGroup& group = CollectiveAccess::group(members);
  Call call = make_call(group, make, options);
  set_purpose(call);  // of this thread
  using Result = std::invoke_result_t<Run, CollectiveGroup&, Call&, Value&>;
  auto task = std::make_shared<std::packaged_task<Result(uint64_t)>>(
      [&group, call = std::move(call), run, value = std::move(value)](uint64_t number) mutable {
        call.number = number;
        return run(group, call, value);
      });
  std::future<Result> result = task->get_future();
  group.start([task](uint64_t number) { (*task)(number); });
  return result;
}

Call pack_call(const CollectiveGroup& group, ReduceOp op, const PackMemory& pack) {
  if (pack.maker != &group) {
    internal::raise(
        Code::InvalidArgument,
        "[AllReduce] the pack was made by another group; make one with this group's make_pack");
  }
  check_dtype(CallKind::AllReduce, op, pack.dtype);
  if (op == ReduceOp::Mean && !is_floating(pack.dtype)) {
    internal::raise(
        Code::InvalidArgument,
        "[AllReduce] the mean of {} does not fit into the pack; take the Sum, or a floating pack",
        to_string(pack.dtype));
  }
  return {.kind = CallKind::AllReduce,
          .op = op,
          .dtype = pack.dtype,
          .shape = {pack.count()},
          .pack = pack.number};
}

void run_pack(CollectiveGroup& group, Call& call, const std::shared_ptr<PackMemory>& pack) {
  const auto body = [&] { group.engine().all_reduce(call, *pack); };
  group.run(call, std::ref(body));
}

void run_barrier(CollectiveGroup& group, Call& call) {
  const auto body = [&] { group.engine().barrier(call); };
  group.run(call, std::ref(body));
}

// Makes a call with a root.
auto rooted(CallKind kind, ReduceOp op, const Tensor& value, int root) {
  return [kind, op, &value, root](const CollectiveGroup& group) {
    check_rank(group, root, "the root");
    Call call = dense_call(kind, op, value);
    call.root = root;
    return call;
  };
}

}  // namespace

int Communicator::rank() const { return CollectiveAccess::group(*this).rank(); }
int Communicator::size() const { return CollectiveAccess::group(*this).size(); }
std::string Communicator::member(int rank) const {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check_rank(group, rank, "the member");
  return group.name_of(rank);
}
std::string Communicator::kind() const {
  return std::string(CollectiveAccess::group(*this).engine().kind());
}

Tensor Communicator::all_reduce(const Tensor& value, ReduceOp op,
                                const CommunicationOptions& options) {
  const auto make = [&](auto&) { return dense_call(CallKind::AllReduce, op, value); };
  return run_now(*this, make, options, all_reduce_dense, value);
}

std::future<Tensor> Communicator::start_all_reduce(const Tensor& value, ReduceOp op,
                                                   const CommunicationOptions& options) {
  const auto make = [&](auto&) { return dense_call(CallKind::AllReduce, op, value); };
  return run_later(*this, make, options, all_reduce_dense, value);
}

void Communicator::all_reduce(Pack& pack, ReduceOp op, const CommunicationOptions& options) {
  const auto& memory = CollectiveAccess::memory(pack);
  const auto make = [&](const CollectiveGroup& group) { return pack_call(group, op, *memory); };
  run_now(*this, make, options, run_pack, memory);
}

std::future<void> Communicator::start_all_reduce(Pack& pack, ReduceOp op,
                                                 const CommunicationOptions& options) {
  const auto& memory = CollectiveAccess::memory(pack);
  const auto make = [&](const CollectiveGroup& group) { return pack_call(group, op, *memory); };
  return run_later(*this, make, options, run_pack, memory);
}

Pack Communicator::make_pack(DType dtype, std::vector<Shape> shapes,
                             const CommunicationOptions& options) {
  std::shared_ptr<internal::PackMemory> memory;
  const auto make = [&](const CollectiveGroup& group) -> Call {
    if (!is_numeric(dtype)) {
      internal::raise(Code::InvalidArgument, "[MakePack] packs hold numbers, not {}",
                      to_string(dtype));
    }
    memory = std::make_shared<internal::PackMemory>(dtype, std::move(shapes));
    memory->maker = &group;
    return {.kind = CallKind::MakePack,
            .dtype = dtype,
            .shape = {memory->count()},
            .detail = describe_tensors(dtype, memory->shapes)};
  };
  run_now(*this, make, options, [&](CollectiveGroup& group, Call& call) {
    memory->number = call.number;
    const auto body = [&] { group.engine().allocate(call, *memory); };
    group.run(call, std::ref(body));
  });
  return CollectiveAccess::make(memory);
}

Tensor Communicator::broadcast(const Tensor& value, int root, const CommunicationOptions& options) {
  return run_now(*this, rooted(CallKind::Broadcast, ReduceOp::Sum, value, root), options,
                 broadcast_dense, value);
}

std::future<Tensor> Communicator::start_broadcast(const Tensor& value, int root,
                                                  const CommunicationOptions& options) {
  return run_later(*this, rooted(CallKind::Broadcast, ReduceOp::Sum, value, root), options,
                   broadcast_dense, value);
}

Tensor Communicator::reduce(const Tensor& value, ReduceOp op, int root,
                            const CommunicationOptions& options) {
  return run_now(*this, rooted(CallKind::Reduce, op, value, root), options, reduce_dense, value);
}

Tensor Communicator::all_gather(const Tensor& value, const CommunicationOptions& options) {
  const auto make = [&](auto&) { return gather_call(value); };
  return run_now(*this, make, options, gather_dense, value);
}

std::future<Tensor> Communicator::start_all_gather(const Tensor& value,
                                                   const CommunicationOptions& options) {
  const auto make = [&](auto&) { return gather_call(value); };
  return run_later(*this, make, options, gather_dense, value);
}

Tensor Communicator::reduce_scatter(const Tensor& value, ReduceOp op,
                                    const CommunicationOptions& options) {
  const auto make = [&](const CollectiveGroup& group) { return scatter_call(group, op, value); };
  return run_now(*this, make, options, reduce_scatter_dense, value);
}

void Communicator::barrier(const CommunicationOptions& options) {
  run_now(
      *this, [](auto&) { return Call{.kind = CallKind::Barrier}; }, options, run_barrier);
}

void Communicator::send(const Tensor& value, int to, uint32_t tag) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check_rank(group, to, "the receiver");
  group.send_tagged(to, tag, value);
}

Tensor Communicator::receive(int from, uint32_t tag, const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check_rank(group, from, "the sender");
  return group.receive_tagged(from, tag, deadline_of(options));
}

std::vector<Tensor> Communicator::all_reduce(const std::vector<Tensor>& values, ReduceOp op,
                                             const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const Deadline deadline = or_refuse(group, [&] { return deadline_of(options); });
  return all_reduce_list(group, values, op, deadline);
}

IndexedSlices Communicator::all_reduce(const IndexedSlices& rows, ReduceOp op,
                                       const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const Deadline deadline = or_refuse(group, [&] { return deadline_of(options); });
  return all_reduce_rows(group, rows, op, deadline);
}

std::vector<Tensor> Communicator::all_to_all(const std::vector<Tensor>& parts,
                                             const CommunicationOptions& options) {
  const auto make = [&](const CollectiveGroup& group) -> Call {
    if (parts.size() != static_cast<size_t>(group.size())) {
      internal::raise(Code::InvalidArgument,
                      "[AllToAll] expected one part for each member, got {} parts for {} members",
                      parts.size(), group.size());
    }
    const auto empty = std::ranges::find_if_not(parts, &Tensor::defined);
    if (empty != parts.end()) {
      internal::raise(
          Code::InvalidArgument,
          "[AllToAll] the part for rank {} holds nothing; use zeros({{0}}) for an empty part",
          empty - parts.begin());
    }
    return {.kind = CallKind::AllToAll};
  };
  return run_now(*this, make, options, all_to_all_dense, parts);
}

void Communicator::calibrate(const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  calibrate_group(group, or_refuse(group, [&] { return deadline_of(options); }));
}

void Communicator::close() {
  if (group_) group_->leave();
}

}  // namespace cohort
