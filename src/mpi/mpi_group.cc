#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "base/raise.h"
#include "cohort/mpi.h"
#include "collectives/access.h"
#include "collectives/party_rendezvous.h"
#include "mpi/mpi_engine.h"
#include "mpi/mpi_world.h"
#include "rpc/endpoint.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kTextBytes = 256;
using Text = std::array<char, kTextBytes>;

// Everybody's text, by rank. For the beginning, when there is nothing else to wait with.
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

std::string host_name() {
  Text name{};
  if (gethostname(name.data(), name.size() - 1) != 0) raise(Code::Internal, "[Mpi] gethostname");
  return name.data();
}

bool are_equal(const std::vector<std::string>& texts) {
  return std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end();
}

// NodeOutputs stay until the process ends: groups use them, which may end on the endpoints'
// threads.
std::shared_ptr<Party> kept(std::unique_ptr<Party> party) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::shared_ptr<Party>>();
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::move(party));
}

}  // namespace
}  // namespace internal

Communicator make_mpi_group(const MpiOptions& options) {
  using internal::MpiWorld;
  MpiWorld& world = MpiWorld::of_process();
  const std::string host = internal::host_name();
  const bool spans_hosts = !internal::are_equal(internal::exchange(world, host));
  const auto name = [](size_t rank) { return fmt::format("/job:mpi/replica:0/task:{}", rank); };
  const internal::MemberDoor door;
  const auto party = internal::kept(
      internal::make_endpoint({.self = {.name = name(static_cast<size_t>(world.rank())),
                                        .incarnation = static_cast<uint64_t>(getpid()),
                                        .address = (spans_hosts ? host : "127.0.0.1") + ":0"},
                               .credentials = options.credentials,
                               .spans_hosts = spans_hosts},
                              door.accept()));
  std::vector<internal::Peer> members;
  for (const std::string& address : internal::exchange(world, party->self().address)) {
    members.push_back({.name = name(members.size()), .address = address});
  }
  return internal::make_communicator(door.open(party, world.rank(), std::move(members)),
                                     {.share_memory = options.share_memory,
                                      .meeting_time = options.meeting_time,
                                      .engine = internal::mpi_engine()});
}

}  // namespace cohort
