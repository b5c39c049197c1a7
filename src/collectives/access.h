#pragma once

#include "cohort/collective.h"
#include "collectives/group.h"
#include "collectives/pack_memory.h"

namespace cohort::internal {

// The one way into and out of a Communicator's and a Pack's private part.
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
  // FailedPrecondition when it is no group.
  static CollectiveGroup& group(const Communicator& communicator);
  static Pack make(std::shared_ptr<PackMemory> memory) {
    Pack made;
    made.memory_ = std::move(memory);
    return made;
  }
  // FailedPrecondition when it is no pack.
  static const std::shared_ptr<PackMemory>& memory(const Pack& pack);
};

// When a call with these options is given up.
Deadline deadline_of(const CollectiveOptions& options);

// Returns when every member has called it with its pack, whose memory they share: the others may
// read from then on what each wrote before.
void share_pack(const Communicator& group, const Pack& pack, const CollectiveOptions& options);

// The same members as a group of its own, for calls that one of them may begin long before the
// others: nobody is reported as missing. A call that all of them make at the same time.
Communicator make_background_group(const Communicator& members);

// The group of all that `rendezvous` knows. A call that all of them make at the same time.
Communicator make_communicator(std::shared_ptr<Rendezvous> rendezvous, GroupSettings settings = {});

}  // namespace cohort::internal
