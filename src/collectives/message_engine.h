#pragma once

#include "collectives/arithmetic.h"
#include "collectives/collective_group.h"
#include "collectives/engine.h"

namespace cohort::internal {

// All calls by messages. Other engines inherit the calls that they do not do better.
class MessageEngine : public Engine {
 public:
  MessageEngine(CollectiveGroup& group, Distance distance);

  std::string_view kind() const override { return group_.size() == 1 ? "alone" : "messages"; }
  void all_reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) override;
  void broadcast(const Call& call, const Buffer& values, std::byte* out) override;
  void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) override;
  Parts all_to_all(const Call& call, Parts parts) override;
  void barrier(const Call& call) override;
  void allocate(const Call& call, PackMemory& pack) override;
  void all_reduce(const Call& call, PackMemory& pack) override;
  std::vector<Algorithm> algorithms() const override { return candidates(distance_); }

 protected:
  // Reductions of several members; never Mean, which is a sum that is divided in the end.
  virtual void combine_all(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_on_root(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_parts(const Call& call, const Numbers& numbers, std::byte* out);

  CollectiveGroup& group_;

 private:
  const Distance distance_;
};

}  // namespace cohort::internal
