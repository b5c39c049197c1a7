#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <numeric>

#include "base/raise.h"
#include "collectives/arithmetic.h"
#include "collectives/engine.h"
#include "mpi/mpi_group.h"
#include "mpi/mpi_world.h"

namespace cohort::internal {
namespace {

// MPI counts elements with an int.
constexpr size_t kMaxElements = size_t{1} << 30;

// MPI moves data only while a thread polls.
constexpr PollPolicy kPolicy{.awake = std::chrono::milliseconds(2),
                             .max_sleep = std::chrono::microseconds(50)};
// A call that all members have begun ends earlier.
constexpr std::chrono::milliseconds kLastLooks{500};

std::optional<MPI_Datatype> mpi_dtype(DType dtype) {
  static const std::pair<DType, MPI_Datatype> known[] = {
      {kInt8, MPI_INT8_T},   {kBool, MPI_UINT8_T},  {kUInt8, MPI_UINT8_T}, {kInt16, MPI_INT16_T},
      {kInt32, MPI_INT32_T}, {kInt64, MPI_INT64_T}, {kFloat32, MPI_FLOAT}, {kFloat64, MPI_DOUBLE}};
  for (const auto& [ours, theirs] : known) {
    if (ours == dtype) return theirs;
  }
  return std::nullopt;
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Min:
      return MPI_MIN;
    case ReduceOp::Max:
      return MPI_MAX;
    case ReduceOp::Product:
      return MPI_PROD;
    default:
      return MPI_SUM;
  }
}

// Whether MPI knows the dtype, and does with it what the Communicator promises.
bool can_reduce(const Numbers& numbers) {
  const bool loses_nan = numbers.op == ReduceOp::Min || numbers.op == ReduceOp::Max;
  return mpi_dtype(numbers.dtype) && !(loses_nan && is_floating(numbers.dtype));
}

class MpiEngine : public Engine {
 public:
  explicit MpiEngine(CollectiveGroup& group)
      : Engine(group, Distance::Network), world_(MpiWorld::of_process()) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    const std::vector<int>& numbers = group.members();
    world_.call("MPI_Comm_group", [&] { return MPI_Comm_group(MPI_COMM_WORLD, &world); });
    world_.call("MPI_Group_incl",
                [&] { return MPI_Group_incl(world, group.size(), numbers.data(), &members); });
    // Groups of other members may be made at the same time; the tag keeps them apart.
    const int tag = static_cast<int>(group.id() % 30000);
    world_.call("MPI_Comm_create_group",
                [&] { return MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm_); });
    MPI_Group_free(&members);
    MPI_Group_free(&world);
  }
  ~MpiEngine() override {
    if (world_.is_usable()) MPI_Comm_free(&comm_);
  }

  std::string_view kind() const override { return "mpi"; }

  void broadcast(const Call& call, const Buffer& values, std::byte* out) override {
    meet(call);
    const size_t bytes = values.bytes.size();
    if (group_.rank() == call.root && bytes > 0) std::memcpy(out, values.bytes.data(), bytes);
    for (size_t at = 0; at < bytes; at += kMaxElements) {
      const auto count = static_cast<int>(std::min(kMaxElements, bytes - at));
      run(call, "MPI_Ibcast", [&](MPI_Request* request) {
        return MPI_Ibcast(out + at, count, MPI_BYTE, call.root, comm_, request);
      });
    }
  }

  void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) override {
    meet(call);
    const std::vector<uint64_t> sizes = gather_sizes(call, own.bytes.size());
    const uint64_t total = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    if (total > INT_MAX) return Engine::all_gather(call, own, allocate);
    std::vector<int> counts(sizes.begin(), sizes.end());
    std::vector<int> places(sizes.size(), 0);
    std::partial_sum(counts.begin(), counts.end() - 1, places.begin() + 1);
    std::byte* out = allocate(std::vector<size_t>(sizes.begin(), sizes.end()));
    run(call, "MPI_Iallgatherv", [&](MPI_Request* request) {
      return MPI_Iallgatherv(own.bytes.data(), static_cast<int>(own.bytes.size()), MPI_BYTE, out,
                             counts.data(), places.data(), MPI_BYTE, comm_, request);
    });
  }

  void barrier(const Call& call) override { meet(call); }

  void all_reduce(const Call& call, PackMemory& pack) override {
    Engine::all_reduce(call, {{pack.own, pack.bytes()}, nullptr}, pack.own);
  }

 protected:
  void combine_all(const Call& call, const Numbers& numbers, std::byte* out) override {
    if (!can_reduce(numbers)) {
      // A pack's own values are where the result goes.
      Numbers apart = numbers;
      apart.values = copy_of(numbers.values.bytes);
      return Engine::combine_all(call, apart, out);
    }
    meet(call);
    for_each_part(numbers, [&](size_t at, int count) {
      const std::byte* const from = numbers.values.bytes.data() + at;
      run(call, "MPI_Iallreduce", [&](MPI_Request* request) {
        return MPI_Iallreduce(from == out + at ? MPI_IN_PLACE : from, out + at, count,
                              *mpi_dtype(numbers.dtype), mpi_op(numbers.op), comm_, request);
      });
    });
  }

  void combine_on_root(const Call& call, const Numbers& numbers, std::byte* out) override {
    if (!can_reduce(numbers)) return Engine::combine_on_root(call, numbers, out);
    meet(call);
    for_each_part(numbers, [&](size_t at, int count) {
      run(call, "MPI_Ireduce", [&](MPI_Request* request) {
        return MPI_Ireduce(numbers.values.bytes.data() + at, out == nullptr ? nullptr : out + at,
                           count, *mpi_dtype(numbers.dtype), mpi_op(numbers.op), call.root, comm_,
                           request);
      });
    });
  }

  void combine_parts(const Call& call, const Numbers& numbers, std::byte* out) override {
    const size_t each = static_cast<size_t>(numbers.count()) / static_cast<size_t>(group_.size());
    if (!can_reduce(numbers) || each > kMaxElements) {
      return Engine::combine_parts(call, numbers, out);
    }
    meet(call);
    run(call, "MPI_Ireduce_scatter_block", [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(numbers.values.bytes.data(), out, static_cast<int>(each),
                                       *mpi_dtype(numbers.dtype), mpi_op(numbers.op), comm_,
                                       request);
    });
  }

 private:
  template <typename Body>
  static void for_each_part(const Numbers& numbers, const Body& body) {
    const auto count = static_cast<size_t>(numbers.count());
    for (size_t at = 0; at < count; at += kMaxElements) {
      body(at * numbers.element(), static_cast<int>(std::min(kMaxElements, count - at)));
    }
  }

  // Starts a collective and looks until it is done, the group is closed, or the time is up.
  template <typename Start>
  void run(const Call& call, std::string_view name, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    world_.call(name, [&] { return start(&request); });
    int is_done = 0;
    const auto look = [&] {
      world_.call("MPI_Test", [&] { return MPI_Test(&request, &is_done, MPI_STATUS_IGNORE); });
      return is_done != 0;
    };
    const Status status =
        capture_status([&] { poll_in_group(group_, awaited_of(call), look, kPolicy); });
    if (status.ok()) return;
    if (!ends_soon(look)) world_.abandon();
    throw_if_error(status);
  }

  // Whether a collective of a closed group ends all the same. It does when all members have begun
  // it and one was quick to find that they differ; MPI can then be used further.
  template <typename Look>
  static bool ends_soon(const Look& look) {
    return poll_until(std::chrono::steady_clock::now() + kLastLooks, look, kPolicy);
  }

  static CollectiveGroup::Awaited awaited_of(const Call& call) {
    return {.call = &call, .from = -1, .deadline = call.deadline};
  }

  // All members are in the same call, or all throw. The largest of a number's complements is the
  // complement of the smallest: the two meet when all members have the same number.
  void meet(const Call& call) {
    const uint64_t own = mix(fingerprint(call), call.number);
    const std::array<uint64_t, 4> mine{own, ~own, call.site, call.site != 0 ? ~call.site : 0};
    std::array<uint64_t, 4> largest{};
    run(call, "MPI_Iallreduce", [&](MPI_Request* request) {
      return MPI_Iallreduce(mine.data(), largest.data(), 4, MPI_UINT64_T, MPI_MAX, comm_, request);
    });
    const bool same_sites = largest[2] == 0 || largest[2] == ~largest[3];
    if (largest[0] != own || largest[1] != ~own || !same_sites) {
      group_.differ(call, (group_.rank() + 1) % group_.size());
    }
  }

  std::vector<uint64_t> gather_sizes(const Call& call, uint64_t own) {
    std::vector<uint64_t> sizes(static_cast<size_t>(group_.size()));
    run(call, "MPI_Iallgather", [&](MPI_Request* request) {
      return MPI_Iallgather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, comm_, request);
    });
    return sizes;
  }

  MpiWorld& world_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

EngineChoice mpi_engine() {
  return {.name = "mpi", .make = [](CollectiveGroup& group, const Call&) {
            return std::make_unique<MpiEngine>(group);
          }};
}

}  // namespace cohort::internal
