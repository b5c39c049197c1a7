#include <algorithm>

#include "collectives/arithmetic.h"
#include "collectives/collective_group.h"
#include "collectives/engine.h"

namespace cohort::internal {
namespace {

using Ranks = std::vector<int>;

class TwoLevelEngine : public Engine {
 public:
  TwoLevelEngine(CollectiveGroup& group, const std::vector<Ranks>& hosts)
      : Engine(group, Distance::Network) {
    Ranks firsts;
    for (const Ranks& host : hosts) {
      firsts.push_back(host.front());
      if (std::ranges::count(host, group.rank()) > 0) inside_ = open("in one host", host);
    }
    if (inside_->rank() == 0) between_ = open("between hosts", firsts);
  }

  std::string_view kind() const override { return "two-level"; }

  using Engine::all_reduce;
  void all_reduce(const Call& call, const Buffer& values, std::byte* out) override {
    const bool is_mean = call.op == ReduceOp::Mean;
    const size_t bytes = values.bytes.size();
    const FreshBuffer sums(bytes);
    std::byte* const totals = is_mean ? sums.data : out;
    Call part = call;
    part.root = 0;
    // Hosts may have different numbers of members, so a mean of the hosts' means would be wrong:
    // the sum is divided once, in the end.
    if (is_mean) part.op = ReduceOp::Sum;
    run(*inside_, part, CallKind::Reduce,
        [&](Engine& engine, const Call& inner) { engine.reduce(inner, values, sums.data); });
    if (between_) {
      const Buffer own = copy_of(sums.buffer.bytes);
      run(*between_, part, CallKind::AllReduce,
          [&](Engine& engine, const Call& inner) { engine.all_reduce(inner, own, totals); });
    }
    const Buffer total = between_ ? copy_of({totals, bytes}) : sums.buffer;
    run(*inside_, part, CallKind::Broadcast,
        [&](Engine& engine, const Call& inner) { engine.broadcast(inner, total, totals); });
    if (is_mean) {
      const int64_t count = static_cast<int64_t>(bytes) / size_of(call.dtype);
      divide(call.dtype, totals, count, group_.size(), out);
    }
  }

  // A member that waits in one of the levels does not see what happens to the group.
  void group_failed(const Status& why) override {
    inside_->fail(why);
    if (between_) between_->fail(why);
  }
  void group_left() override {
    inside_->leave();
    if (between_) between_->leave();
  }

 private:
  std::shared_ptr<CollectiveGroup> open(std::string_view purpose, const Ranks& ranks) const {
    std::vector<int> members;
    // All members compute the same number without a message.
    uint64_t id = mix(group_.id(), purpose.size());
    for (const int rank : ranks) {
      members.push_back(group_.members()[static_cast<size_t>(rank)]);
      id = mix(id, static_cast<uint64_t>(rank));
    }
    return CollectiveGroup::open(group_.links(), id, std::move(members), group_.settings(),
                                 group_.weak_from_this());
  }

  template <typename Body>
  static void run(CollectiveGroup& level, const Call& call, CallKind kind, const Body& body) {
    Call inner = call;
    inner.kind = kind;
    inner.number = level.next_number();
    level.run(inner, [&] { body(level.engine(), inner); });
  }

  std::shared_ptr<CollectiveGroup> inside_;
  std::shared_ptr<CollectiveGroup> between_;  // on the first member of each host
};

}  // namespace

std::unique_ptr<Engine> make_two_level_engine(CollectiveGroup& group,
                                              const std::vector<std::vector<int>>& hosts) {
  return std::make_unique<TwoLevelEngine>(group, hosts);
}

}  // namespace cohort::internal
