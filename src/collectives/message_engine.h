#pragma once

#include "collectives/arithmetic.h"
#include "collectives/engine.h"
#include "collectives/group.h"

namespace cohort::internal {

// Everything by messages. What other engines have no better way for they inherit.
class MessageEngine : public Engine {
 public:
  MessageEngine(CollectiveGroup& group, Distance distance);

  std::string_view way() const override { return group_.size() == 1 ? "alone" : "messages"; }
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
  // Reductions by several members; not of Mean, which is a sum that is divided in the end.
  virtual void combine_all(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_on_root(const Call& call, const Numbers& numbers, std::byte* out);
  virtual void combine_parts(const Call& call, const Numbers& numbers, std::byte* out);

  CollectiveGroup& group_;

 private:
  const Distance distance_;
};

}  // namespace cohort::internal
