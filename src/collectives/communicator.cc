#include <algorithm>
#include <numeric>

#include "base/raise.h"
#include "cohort/collective.h"
#include "collectives/access.h"
#include "collectives/call.h"
#include "collectives/engine.h"
#include "collectives/tensor_collectives.h"
#include "tensor/memory.h"

namespace cohort {

namespace internal {

CollectiveGroup& CollectiveAccess::group(const Communicator& communicator) {
  if (communicator.group_ == nullptr) {
    raise(Code::FailedPrecondition, "[Communicator] it is no group's member");
  }
  return *communicator.group_;
}

Deadline deadline_of(const CollectiveOptions& options) {
  return options.timeout ? deadline_after(*options.timeout) : Deadline::max();
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

// Runs the call with the next number now. `make` makes the call, or throws if it is invalid.
template <typename Make, typename Body>
auto run_now(CollectiveGroup& group, const Make& make, const CollectiveOptions& options,
             const Body& body) {
  Call call = or_refuse(group, make);
  call.deadline = deadline_of(options);
  call.number = group.next_number();
  return body(call);
}

// The same on the group's thread.
template <typename Make, typename Body>
auto run_later(CollectiveGroup& group, const Make& make, const CollectiveOptions& options,
               Body body) {
  Call call = or_refuse(group, make);
  call.deadline = deadline_of(options);
  set_purpose(call);  // of this thread
  using Result = std::invoke_result_t<Body, Call&>;
  auto task = std::make_shared<std::packaged_task<Result(uint64_t)>>(
      [call = std::move(call), body = std::move(body)](uint64_t number) mutable {
        call.number = number;
        return body(call);
      });
  std::future<Result> result = task->get_future();
  group.start([task](uint64_t number) { (*task)(number); });
  return result;
}

Call rooted_call(const CollectiveGroup& group, CallKind kind, ReduceOp op, const Tensor& value,
                 int root) {
  check_rank(group, root, "the root");
  Call call = dense_call(kind, op, value);
  call.root = root;
  return call;
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
                                const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_now(
      group, [&] { return dense_call(CallKind::AllReduce, op, value); }, options,
      [&](Call& call) { return all_reduce_dense(group, call, value); });
}

std::future<Tensor> Communicator::start_all_reduce(const Tensor& value, ReduceOp op,
                                                   const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_later(
      group, [&] { return dense_call(CallKind::AllReduce, op, value); }, options,
      [&group, value](Call& call) { return all_reduce_dense(group, call, value); });
}

void Communicator::all_reduce(Pack& pack, ReduceOp op, const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const auto& memory = CollectiveAccess::memory(pack);
  run_now(
      group, [&] { return pack_call(group, op, *memory); }, options,
      [&](Call& call) { all_reduce_pack(group, call, *memory); });
}

std::future<void> Communicator::start_all_reduce(Pack& pack, ReduceOp op,
                                                 const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const auto memory = CollectiveAccess::memory(pack);
  return run_later(
      group, [&] { return pack_call(group, op, *memory); }, options,
      [&group, memory](Call& call) { all_reduce_pack(group, call, *memory); });
}

Pack Communicator::make_pack(DType dtype, std::vector<Shape> shapes,
                             const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  std::shared_ptr<internal::PackMemory> memory;
  const auto make = [&]() -> Call {
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
  run_now(group, make, options, [&](Call& call) {
    memory->number = call.number;
    const auto body = [&] { group.engine().allocate(call, *memory); };
    group.run(call, std::ref(body));
  });
  return CollectiveAccess::make(memory);
}

Tensor Communicator::broadcast(const Tensor& value, int root, const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_now(
      group, [&] { return rooted_call(group, CallKind::Broadcast, ReduceOp::Sum, value, root); },
      options, [&](Call& call) { return broadcast_dense(group, call, value); });
}

std::future<Tensor> Communicator::start_broadcast(const Tensor& value, int root,
                                                  const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_later(
      group, [&] { return rooted_call(group, CallKind::Broadcast, ReduceOp::Sum, value, root); },
      options, [&group, value](Call& call) { return broadcast_dense(group, call, value); });
}

Tensor Communicator::reduce(const Tensor& value, ReduceOp op, int root,
                            const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_now(
      group, [&] { return rooted_call(group, CallKind::Reduce, op, value, root); }, options,
      [&](Call& call) { return reduce_dense(group, call, value); });
}

Tensor Communicator::all_gather(const Tensor& value, const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_now(
      group, [&] { return gather_call(value); }, options,
      [&](Call& call) { return gather_dense(group, call, value); });
}

std::future<Tensor> Communicator::start_all_gather(const Tensor& value,
                                                   const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_later(
      group, [&] { return gather_call(value); }, options,
      [&group, value](Call& call) { return gather_dense(group, call, value); });
}

Tensor Communicator::reduce_scatter(const Tensor& value, ReduceOp op,
                                    const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return run_now(
      group, [&] { return scatter_call(group, op, value); }, options,
      [&](Call& call) { return reduce_scatter_dense(group, call, value); });
}

void Communicator::barrier(const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  run_now(
      group, [] { return Call{.kind = CallKind::Barrier}; }, options,
      [&](Call& call) {
        const auto body = [&] { group.engine().barrier(call); };
        group.run(call, std::ref(body));
      });
}

void internal::share_pack(const Communicator& members, const Pack& pack,
                          const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(members);
  const PackMemory& memory = *CollectiveAccess::memory(pack);
  int64_t elements = 0;
  for (const Shape& shape : memory.shapes) elements += shape.num_elements();
  const auto make = [&]() -> Call {
    return {.kind = CallKind::SharePack,
            .dtype = memory.dtype,
            .shape = {elements},
            .pack = memory.number};
  };
  run_now(group, make, options, [&](Call& call) {
    const auto body = [&] { group.engine().barrier(call); };
    group.run(call, std::ref(body));
  });
}

void Communicator::send(const Tensor& value, int to, uint32_t tag) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check_rank(group, to, "the receiver");
  group.send_tagged(to, tag, value);
}

Tensor Communicator::receive(int from, uint32_t tag, const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check_rank(group, from, "the sender");
  return group.receive_tagged(from, tag, deadline_of(options));
}

std::vector<Tensor> Communicator::all_reduce(const std::vector<Tensor>& values, ReduceOp op,
                                             const CollectiveOptions& options) {
  return all_reduce_list(CollectiveAccess::group(*this), values, op, deadline_of(options));
}

IndexedSlices Communicator::all_reduce(const IndexedSlices& rows, ReduceOp op,
                                       const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  return all_reduce_rows(group, rows, op, deadline_of(options));
}

std::vector<Tensor> Communicator::all_to_all(const std::vector<Tensor>& parts,
                                             const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const auto make = [&]() -> Call {
    if (parts.size() != static_cast<size_t>(group.size())) {
      internal::raise(Code::InvalidArgument,
                      "[AllToAll] {} parts for {} members; give one for each", parts.size(),
                      group.size());
    }
    const auto empty = std::ranges::find_if_not(parts, &Tensor::defined);
    if (empty != parts.end()) {
      internal::raise(Code::InvalidArgument,
                      "[AllToAll] the part for rank {} holds nothing; zeros({{0}}) is empty",
                      empty - parts.begin());
    }
    return {.kind = CallKind::AllToAll};
  };
  return run_now(group, make, options,
                 [&](Call& call) { return all_to_all_dense(group, call, parts); });
}

void Communicator::calibrate(const CollectiveOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  calibrate_group(group, deadline_of(options));
}

void Communicator::close() {
  if (group_) group_->leave();
}

}  // namespace cohort
