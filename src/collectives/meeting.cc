#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "base/log.h"
#include "base/raise.h"
#include "collectives/algorithms.h"
#include "collectives/deadline_after.h"
#include "collectives/segment_exchange.h"
#include "collectives/shared_engine.h"
#include "collectives/two_level_engine.h"

// How a group begins: its members connect, compare who they are, and choose an engine.

namespace cohort::internal {
namespace {

constexpr uint64_t kProtocol = 4;

// What a member tells the others of itself.
struct Introduction {
  uint64_t protocol = kProtocol;
  std::string host = {};    // empty: it does not share memory
  std::string engine = {};  // empty: messages

  Buffer to_buffer() const {
    Message message;
    MessageWriter(message).number(protocol).text(host).text(engine);
    const FreshBuffer bytes(message.header.size());
    std::memcpy(bytes.data, message.header.data(), message.header.size());
    return bytes.buffer;
  }
  static Introduction from(const Buffer& buffer) {
    Message message;
    message.header.assign(reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size());
    MessageReader reader(message, "an introduction");
    Introduction result;
    result.protocol = reader.number();
    result.host = reader.text();
    result.engine = reader.text();
    return result;
  }
};

// The members that the algorithms talk to most: neighbours in the ring, partners at the distances
// of powers of two. Who asks whom is the same question on both sides.
std::set<int> partners(int rank, int size) {
  std::set<int> result;
  for (int distance = 1; distance < size; distance *= 2) {
    result.insert((rank + distance) % size);
    result.insert((rank - distance + size) % size);
  }
  result.erase(rank);
  return result;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Ranks by host, in the order of their first members. Who shares with nobody is a host of its own.
std::vector<std::vector<int>> by_host(const std::vector<Introduction>& all) {
  std::vector<std::vector<int>> hosts;
  std::map<std::string, size_t> known;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto [found, is_new] = known.try_emplace(all[rank].host, hosts.size());
    if (is_new || all[rank].host.empty()) {
      hosts.push_back({static_cast<int>(rank)});
    } else {
      hosts[found->second].push_back(static_cast<int>(rank));
    }
  }
  return hosts;
}

// Whether there are several hosts, and several members on one of them.
bool shares_some(const std::vector<std::vector<int>>& hosts) {
  return hosts.size() > 1 && std::any_of(hosts.begin(), hosts.end(),
                                         [](const auto& ranks) { return ranks.size() > 1; });
}

void check_fits(const Introduction& own, const std::string& self, const Introduction& other,
                const std::string& who) {
  if (other.protocol != own.protocol) {
    raise(Code::FailedPrecondition,
          "[Collective] {} is of another version of the library: it speaks protocol {}, {} speaks "
          "{}",
          who, other.protocol, self, own.protocol);
  }
  if (other.engine != own.engine) {
    raise(Code::FailedPrecondition,
          "[Collective] {} wants the engine '{}', {} wants '{}'; all members must choose one", who,
          other.engine, self, own.engine);
  }
}

// What all members tell of themselves, by rank. Throws FailedPrecondition when they do not fit.
std::vector<Introduction> introduce(const CollectiveGroup& group, Exchange& exchange) {
  const GroupSettings& settings = group.settings();
  const Introduction own{.host = settings.share_memory ? settings.host : "",
                         .engine = settings.engine.name};
  std::vector<Introduction> all;
  for (const Buffer& buffer : ring_all_gather(exchange, own.to_buffer())) {
    all.push_back(Introduction::from(buffer));
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    check_fits(own, group.describe(group.rank()), all[static_cast<size_t>(rank)],
               group.describe(rank));
  }
  return all;
}

// Null when the members are to meet once more, by the levels of a two-level engine.
std::unique_ptr<Engine> choose_engine(CollectiveGroup& group, Exchange& exchange, const Call& call,
                                      const std::vector<std::vector<int>>& hosts) {
  const bool is_near = hosts.size() == 1;
  const bool is_alone = group.size() == 1;
  if (is_near && !is_alone) {
    const auto segment = share_segment(exchange, SharedEngine::segment_bytes(group.size()));
    if (segment) return std::make_unique<SharedEngine>(group, segment);
  }
  if (shares_some(hosts)) return nullptr;
  const EngineChoice& choice = group.settings().engine;
  if (choice.make && !is_alone) return choice.make(group, call);
  return make_message_engine(group, is_near ? Distance::SameHost : Distance::Network);
}

}  // namespace

std::string this_host() {
  char space[64] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0) space[0] = '\0';
  return first_line("/proc/sys/kernel/random/boot_id") + " " + space;
}

void CollectiveGroup::meet() {
  Call call{.kind = CallKind::Meet,
            .shape = {size()},
            .detail = fmt::format("{} members", size()),
            .number = next_number(),
            .deadline = deadline_after(settings_.meeting_time)};
  std::vector<std::vector<int>> hosts;
  run(call, [&] {
    for (const int rank : partners(rank_, size())) {
      links_->expect(members_[static_cast<size_t>(rank)], call.deadline);
    }
    Exchange exchange(*this, call);
    hosts = by_host(introduce(*this, exchange));
    engine_ = choose_engine(*this, exchange, call, hosts);
  });
  if (!engine_) engine_ = make_two_level_engine(*this, hosts);
  met_engine_ = engine_.get();
  log_info("[Collective] {} of {} has met the others; they talk by {}", describe(rank_), size(),
           engine_->way());
}

}  // namespace cohort::internal
