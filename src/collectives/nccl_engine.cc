#include <atomic>
#include <cstring>

#include "base/raise.h"
#include "collectives/algorithms.h"
#include "collectives/engine.h"
#include "collectives/nccl_library.h"

namespace cohort::internal {
namespace {

constexpr int kAverage = 4;  // NCCL's number, since version 2.10
constexpr int kBytes = 1;    // its dtype of bytes

class NcclEngine : public Engine {
 public:
  NcclEngine(CollectiveGroup& group, const Call& rendezvous, const NcclLibrary& library,
             NcclMemory memory)
      : Engine(group, Distance::Network), library_(library), memory_(memory) {
    NcclId id{};
    if (group.rank() == 0) library_.check(library_.get_unique_id(&id), "ncclGetUniqueId");
    Exchange exchange(group, rendezvous);
    const Buffer own = copy_of(std::as_bytes(std::span(&id, 1)));
    const std::vector<Buffer> all = ring_all_gather(exchange, own);
    std::memcpy(&id, all[0].bytes.data(), sizeof(id));
    NcclComm* comm = nullptr;
    library_.check(library_.comm_init_rank(&comm, group.size(), id, group.rank()),
                   "ncclCommInitRank");
    comm_ = comm;
  }
  ~NcclEngine() override {
    if (NcclComm* comm = comm_.exchange(nullptr)) library_.comm_destroy(comm);
  }

  std::string_view kind() const override { return "nccl"; }
  bool takes_gpus() const override { return true; }

  void all_reduce(const Call& call, const Buffer& values, std::byte* out) override {
    if (!is_for_nccl(call)) return Engine::all_reduce(call, values, out);
    const auto [dtype, op] = meet_to_reduce(call);
    library_.check(library_.all_reduce(values.bytes.data(), out, count(call, values), dtype, op,
                                       comm(), nullptr),
                   "ncclAllReduce");
  }

  void reduce(const Call& call, const Buffer& values, std::byte* out) override {
    if (!is_for_nccl(call)) return Engine::reduce(call, values, out);
    const auto [dtype, op] = meet_to_reduce(call);
    library_.check(library_.reduce(values.bytes.data(), out, count(call, values), dtype, op,
                                   call.root, comm(), nullptr),
                   "ncclReduce");
  }

  void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) override {
    if (!is_for_nccl(call)) return Engine::reduce_scatter(call, values, out);
    const auto [dtype, op] = meet_to_reduce(call);
    const size_t each = count(call, values) / static_cast<size_t>(group_.size());
    library_.check(
        library_.reduce_scatter(values.bytes.data(), out, each, dtype, op, comm(), nullptr),
        "ncclReduceScatter");
  }

  void broadcast(const Call& call, const Buffer& values, std::byte* out) override {
    if (!is_for_nccl(call)) return Engine::broadcast(call, values, out);
    Engine::barrier(call);
    library_.check(library_.broadcast(values.bytes.data(), out, values.bytes.size(), kBytes,
                                      call.root, comm(), nullptr),
                   "ncclBroadcast");
  }

  // NCCL's own all-gather takes equal parts only, so here each member broadcasts its part.
  void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) override {
    if (!is_for_nccl(call)) return Engine::all_gather(call, own, allocate);
    const std::vector<size_t> sizes = gather_sizes(call, own.bytes.size());
    std::byte* out = allocate(sizes);
    library_.check(library_.group_start(), "ncclGroupStart");
    int result = 0;
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      const int one = library_.broadcast(own.bytes.data(), out, sizes[rank], kBytes,
                                         static_cast<int>(rank), comm(), nullptr);
      if (result == 0) result = one;
      out += sizes[rank];
    }
    const int ended = library_.group_end();
    library_.check(result != 0 ? result : ended, "ncclBroadcast");
  }

  // A pack is host memory.
  void all_reduce(const Call& call, PackMemory& pack) override {
    Engine::all_reduce(call, copy_of({pack.own, pack.bytes()}), pack.own);
  }

  // Frees kernels that wait for a member that is gone.
  void group_failed(const Status&) override {
    if (NcclComm* comm = comm_.exchange(nullptr)) library_.comm_abort(comm);
  }

 private:
  bool is_for_nccl(const Call& call) const {
    return group_.size() > 1 && (call.on_gpu || memory_ == NcclMemory::Any);
  }
  static size_t count(const Call& call, const Buffer& values) {
    return values.bytes.size() / static_cast<size_t>(size_of(call.dtype));
  }
  // Throws when the group has failed; the caller sees the group's error instead.
  NcclComm* comm() const {
    NcclComm* const found = comm_.load();
    if (found == nullptr) raise(Code::Cancelled, "[Nccl] the communicator was aborted");
    return found;
  }

  // NCCL's numbers for the dtype and the operation, once all members are there.
  std::pair<int, int> meet_to_reduce(const Call& call) {
    const auto dtype = nccl_dtype(call.dtype == kBool ? kUInt8 : call.dtype);
    const bool averages = call.op == ReduceOp::Mean && is_floating(call.dtype);
    const auto op = averages ? std::optional<int>(kAverage) : nccl_op(call.op);
    if (!dtype || !op) {
      raise(Code::InvalidArgument, "[{}] NCCL has no {} of {}; cast the values before",
            internal::name_of(call.kind), to_string(call.op), to_string(call.dtype));
    }
    Engine::barrier(call);
    return {*dtype, *op};
  }

  std::vector<size_t> gather_sizes(const Call& call, size_t own) {
    const Buffer mine = copy_of(std::as_bytes(std::span(&own, 1)));
    Exchange exchange(group_, call);
    std::vector<size_t> sizes;
    for (const Buffer& part : ring_all_gather(exchange, mine)) {
      sizes.emplace_back();
      std::memcpy(&sizes.back(), part.bytes.data(), sizeof(own));
    }
    return sizes;
  }

  const NcclLibrary& library_;
  const NcclMemory memory_;
  std::atomic<NcclComm*> comm_{nullptr};
};

}  // namespace

EngineChoice nccl_engine(const NcclLibrary& library, NcclMemory memory) {
  return {.name = "nccl",
          .make = [&library, memory](CollectiveGroup& group, const Call& rendezvous) {
            return std::make_unique<NcclEngine>(group, rendezvous, library, memory);
          }};
}

}  // namespace cohort::internal
