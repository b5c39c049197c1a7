#pragma once

#include <fmt/format.h>

#include "collectives/party_rendezvous.h"
#include "rpc/endpoint.h"

namespace cohort {

// How threads of this process meet as tasks do: each has an endpoint, and they connect by `way`.
// Must outlive their groups.
struct EndpointMeetings {
  EndpointMeetings(int size, internal::Way way) {
    std::vector<internal::MemberDoor> doors(static_cast<size_t>(size));
    std::vector<internal::Peer> members;
    for (const internal::MemberDoor& door : doors) {
      const std::string name = fmt::format("task {}", members.size());
      parties.push_back(internal::make_endpoint(
          {.self = {.name = name, .incarnation = members.size() + 1, .address = "127.0.0.1:0"},
           .way = way},
          door.accept()));
      members.push_back(parties.back()->self());
    }
    for (size_t rank = 0; rank < doors.size(); ++rank) {
      meetings.push_back(doors[rank].open(parties[rank], static_cast<int>(rank), members));
    }
  }

  std::vector<std::shared_ptr<internal::Party>> parties = {};
  std::vector<std::shared_ptr<internal::Rendezvous>> meetings = {};
};

}  // namespace cohort
