#include "mpi/mpi_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/host_identity.h"
#include "base/mutex.h"
#include "base/random_number.h"
#include "cohort/mpi.h"
#include "collectives/communicator_access.h"
#include "membership/member_connections.h"
#include "mpi/mpi_world.h"
#include "rpc/grpc_endpoint.h"
#include "rpc/handshake.h"

namespace cohort {
namespace internal {
namespace {

// The texts of all processes, by rank. For the beginning, when no group exists yet.
std::vector<std::string> gather(MpiWorld& world, const std::string& own) {
  const auto bytes = static_cast<int>(own.size());
  std::vector<int> sizes(static_cast<size_t>(world.size()));
  world.call("MPI_Allgather", [&] {
    return MPI_Allgather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  });
  std::vector<int> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::vector<char> all(static_cast<size_t>(offsets.back() + sizes.back()));
  world.call("MPI_Allgatherv", [&] {
    return MPI_Allgatherv(own.data(), bytes, MPI_CHAR, all.data(), sizes.data(), offsets.data(),
                          MPI_CHAR, MPI_COMM_WORLD);
  });
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    texts.emplace_back(all.data() + offsets[rank], static_cast<size_t>(sizes[rank]));
  }
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

std::vector<Member> exchange_members(const Member& self) {
  Handshake own{.peer = self.peer};
  own.peer.settings = encode_settings(self);
  std::vector<Member> members;
  for (const std::string& bytes : gather(MpiWorld::of_process(), encode(own))) {
    const Handshake other = decode_handshake(bytes, self.peer.name);
    check_handshake(other, own);
    members.push_back(member_of(other.peer, self, "Mpi"));
  }
  for (const Member& member : members) throw_if_error(compare(members[0], member, "Mpi"));
  return members;
}

}  // namespace internal

Communicator make_mpi_group(const MpiOptions& options) {
  using internal::MpiWorld;
  MpiWorld& world = MpiWorld::of_process();
  const std::string host = internal::host_name();
  const bool spans_hosts = !internal::are_equal(internal::gather(world, host));
  const internal::PendingConnections pending;
  const auto endpoint = internal::kept(internal::make_endpoint(
      {.self = {.name = fmt::format("/job:mpi/replica:0/task:{}", world.rank()),
                .incarnation = internal::random_number(),
                .address = (spans_hosts ? host : "127.0.0.1") + ":0"},
       .credentials = options.credentials,
       .spans_hosts = spans_hosts},
      pending.accept()));
  const internal::EngineChoice engine = internal::mpi_engine();
  const internal::Member self{.peer = endpoint->self(),
                              .id = static_cast<uint64_t>(world.rank()),
                              .workers = static_cast<uint64_t>(world.size()),
                              .engine = engine.name,
                              .shares_memory = options.share_memory,
                              .process = internal::process_description()};
  internal::Group group{.rank = world.rank()};
  for (const internal::Member& member : internal::exchange_members(self)) {
    group.peers.push_back(member.peer);
    group.hosts.push_back(member.shares_memory ? member.peer.host : "");
  }
  pending.open(endpoint, group);
  return internal::make_communicator(std::move(group),
                                     {.meeting_time = options.meeting_time, .engine = engine});
}

}  // namespace cohort
