#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/error.h"
#include "transport/connection.h"
#include "transport/message_codec.h"

namespace cohort::internal {

// The tasks that train together, by worker id: the chief first, then the workers by index.
struct WorkerList {
  struct Worker {
    std::string name = {};  // "/job:worker/replica:0/task:1"
    std::string address = {};
  };
  std::vector<Worker> workers = {};
  int self = 0;              // this task's id
  bool is_chief = true;      // whether this task saves and logs for all
  bool spans_hosts = false;  // whether some workers are on other machines
  std::string cluster = {};  // the whole cluster as text, to compare

  int size() const { return static_cast<int>(workers.size()); }
  const Worker& own() const { return workers[static_cast<size_t>(self)]; }
};

// What texts for the user begin with, unless the component on top has set its own name.
inline constexpr char kMembership[] = "Membership";

// The workers that train with the given task of the cluster. Throws InvalidArgument as
// validate_task() does, for a ps, and if two workers have one address.
WorkerList list_workers(const ClusterSpec& cluster, const std::string& task_type, int task_id,
                        std::string_view component = kMembership);

// What a worker says about itself in the handshake of its connections. Members of one group agree
// on everything that compare() compares.
struct Member {
  Peer peer = {};  // without `settings`, which are the fields below
  uint64_t id = 0;
  uint64_t workers = 0;        // how many it expects
  uint64_t replicas = 0;       // how many it has
  std::string cluster = {};    // as text
  std::string settings = {};   // other options that all workers must have alike
  std::string engine = {};     // of its collectives; empty: messages
  bool shares_memory = false;  // with members on its host
  std::string process = {};    // "process 4711 on node3"
  uint64_t generation = 0;     // the last group that it was in; 0: none

  bool resumes() const { return generation > 0; }  // it knows where training is
  // Longer texts are refused; see shortened().
  static constexpr size_t kMaxText = 1000;
  static void list_settings(auto& fields, auto& m) {
    fields(m.id, m.workers, m.replicas, m.cluster, m.settings, m.engine, m.shares_memory, m.process,
           m.generation);
    for (const std::string* text : {&m.cluster, &m.settings, &m.engine, &m.process}) {
      fields.check(text->size() <= kMaxText, "a text of a worker is too long");
    }
  }
  static void list_fields(auto& fields, auto& m) {
    fields(m.peer.name, m.peer.incarnation, m.peer.address, m.peer.host, m.peer.build);
    list_settings(fields, m);
  }
};

// A text of limited length that is equal for equal texts only: a long text is cut and gets a hash.
// Handshakes are short, but a cluster may have thousands of workers.
std::string shortened(const std::string& text);

// The member's fields as Peer::settings has them.
std::string encode_settings(const Member& member);
// The member that a handshake describes. Throws FailedPrecondition if the settings come from
// another build of the library, and names both tasks, builds and protocols; DataLoss if they are
// damaged.
Member member_of(const Peer& peer, const Member& self, std::string_view component = kMembership);

// OK if both can be in one group, else FailedPrecondition that names both and the difference.
Status compare(const Member& one, const Member& other, std::string_view component = kMembership);

}  // namespace cohort::internal
