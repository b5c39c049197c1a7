#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/host_identity.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/mpi.h"
#include "collectives/communicator_access.h"
#include "membership/member_connections.h"
#include "mpi/mpi_engine.h"
#include "mpi/mpi_world.h"
#include "rpc/make_endpoint.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kTextBytes = 256;
using Text = std::array<char, kTextBytes>;

// The texts of all processes, by rank. For the beginning, when no group exists yet.
std::vector<std::string> exchange(MpiWorld& world, const std::string& own) {
  if (own.size() >= kTextBytes) raise(Code::InvalidArgument, "[Mpi] '{}' is too long", own);
  Text mine{};
  std::memcpy(mine.data(), own.data(), own.size());
  std::vector<Text> all(static_cast<size_t>(world.size()));
  world.call("MPI_Allgather", [&] {
    return MPI_Allgather(mine.data(), kTextBytes, MPI_CHAR, all.data(), kTextBytes, MPI_CHAR,
                         MPI_COMM_WORLD);
  });
  std::vector<std::string> texts;
  for (const Text& text : all) texts.emplace_back(text.data());
  return texts;
}

bool are_equal(const std::vector<std::string>& texts) {
  return std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end();
}

// Endpoints stay until the process ends: the last user of a group may run on an endpoint's thread.
std::shared_ptr<Endpoint> kept(std::unique_ptr<Endpoint> endpoint) {
  static Mutex mutex;
  static auto& all = *new std::vector<std::shared_ptr<Endpoint>>();
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::move(endpoint));
}

}  // namespace
}  // namespace internal

Communicator make_mpi_group(const MpiOptions& options) {
  using internal::MpiWorld;
  MpiWorld& world = MpiWorld::of_process();
  const std::string host = internal::host_name();
  const bool spans_hosts = !internal::are_equal(internal::exchange(world, host));
  const auto name = [](size_t rank) { return fmt::format("/job:mpi/replica:0/task:{}", rank); };
  const internal::PendingConnections pending;
  const auto endpoint = internal::kept(
      internal::make_endpoint({.self = {.name = name(static_cast<size_t>(world.rank())),
                                        .incarnation = static_cast<uint64_t>(getpid()),
                                        .address = (spans_hosts ? host : "127.0.0.1") + ":0"},
                               .credentials = options.credentials,
                               .spans_hosts = spans_hosts},
                              pending.accept()));
  internal::Group group{.rank = world.rank()};
  for (const std::string& address : internal::exchange(world, endpoint->self().address)) {
    group.peers.push_back({.name = name(group.peers.size()), .address = address});
  }
  group.hosts =
      internal::exchange(world, options.share_memory ? internal::host_identity() : std::string());
  pending.open(endpoint, group);
  return internal::make_communicator(
      std::move(group), {.meeting_time = options.meeting_time, .engine = internal::mpi_engine()});
}

}  // namespace cohort
