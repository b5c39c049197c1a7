#pragma once

#include "cohort/collective.h"
#include "collectives/collective_group.h"
#include "collectives/packing.h"

namespace cohort::internal {

// Gives access to the private parts of Communicator and Pack.
struct CollectiveAccess {
  static Communicator make(std::shared_ptr<CollectiveGroup> group) {
    Communicator made;
    // The last copy leaves the group at once. If it only dropped its reference, a connection's
    // thread might hold the last one, and the server would close the connections before the others
    // know.
    made.group_ = std::shared_ptr<CollectiveGroup>(group.get(),
                                                   [group](CollectiveGroup*) { group->leave(); });
    return made;
  }
  // Throws FailedPrecondition if the communicator has no group.
  static CollectiveGroup& group(const Communicator& communicator);
  static Pack make(std::shared_ptr<PackMemory> memory) {
    Pack made;
    made.memory_ = std::move(memory);
    return made;
  }
  // Throws FailedPrecondition if the pack is empty.
  static const std::shared_ptr<PackMemory>& memory(const Pack& pack);
};

// When a call with these options times out.
Deadline deadline_of(const CommunicationOptions& options);

// The same members as another group, for calls that one member may begin long before the others:
// no member is reported as missing. A call that all members make at the same time.
Communicator make_background_group(const Communicator& members);

// The collectives of a group. A call that all members make at the same time.
Communicator make_communicator(std::shared_ptr<Links> links, const GroupSettings& settings = {});
inline Communicator make_communicator(Group group, const GroupSettings& settings = {}) {
  return make_communicator(Links::open(std::move(group)), settings);
}

}  // namespace cohort::internal
