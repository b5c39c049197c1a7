// Collectives of threads, made again and again, leave nothing behind.

#include <gtest/gtest.h>

#include <thread>

#include "cohort/cohort.h"
#include "cohort/collective.h"
#include "steady/holdings.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::process_holdings;

// Each member makes the calls in a thread of its own; rank 0 measures.
void drive_members(const std::string& what, int count,
                   const std::function<void(Communicator&)>& call) {
  std::vector<Communicator> group = make_local_group(2);
  const std::jthread other([&] {
    for (int i = 0; i < test::all_calls(count); ++i) call(group[1]);
  });
  drive(
      what, count, process_holdings, [&](int) { call(group[0]); }, test::kMoreBytesOfThreads);
}

using MemberCalls =
    std::vector<std::pair<std::string, std::function<void(Communicator& communicator)>>>;

MemberCalls member_calls() {
  const Tensor value = zeros({4, 2});
  const IndexedSlices rows{zeros({1, 2}), Tensor({int64_t{1}}), Shape{4, 2}};
  return {
      {"all_reduce", [=](Communicator& c) { (void)c.all_reduce(value); }},
      {"all_reduce of several",
       [=](Communicator& c) {
         (void)c.all_reduce(std::vector<Tensor>{value, value});
       }},
      {"all_reduce of rows", [=](Communicator& c) { (void)c.all_reduce(rows); }},
      {"broadcast", [=](Communicator& c) { (void)c.broadcast(value); }},
      {"reduce", [=](Communicator& c) { (void)c.reduce(value); }},
      {"all_gather", [=](Communicator& c) { (void)c.all_gather(value); }},
      {"reduce_scatter", [=](Communicator& c) { (void)c.reduce_scatter(value); }},
      {"all_to_all",
       [=](Communicator& c) {
         (void)c.all_to_all({value, value});
       }},
      {"barrier", [](Communicator& c) { c.barrier(); }},
      {"member", [](Communicator& c) { (void)c.member(1 - c.rank()); }},
      {"send and receive",
       [=](Communicator& c) {
         c.send(value, 1 - c.rank());
         (void)c.receive(1 - c.rank());
       }},
      {"start_all_reduce", [=](Communicator& c) { c.start_all_reduce(value).get(); }},
      {"start_broadcast", [=](Communicator& c) { c.start_broadcast(value).get(); }},
      {"start_all_gather", [=](Communicator& c) { c.start_all_gather(value).get(); }},
  };
}

TEST(SteadyCalls, OfACommunicatorAddNothing) {
  for (const auto& [what, call] : member_calls()) drive_members(what, calls(1000), call);
}

TEST(SteadyCalls, OfCalibrationsAddNothing) {
  drive_members("calibrate", std::min(calls(5), 20), [](Communicator& c) { c.calibrate(); });
}

TEST(SteadyCalls, OfPacksAndGroupsThatAreDroppedAddNothing) {
  drive_members("packs", calls(100), [](Communicator& c) {
    Pack pack = c.make_pack(kFloat32, {{4}, {2, 2}});
    pack.write(0, zeros({4}));
    c.all_reduce(pack);
    (void)pack.read(1);
  });
  drive_members("split", calls(100), [](Communicator& c) { c.split(0).barrier(); });
  drive_members("subgroup", calls(100), [](Communicator& c) { c.subgroup({1, 0}).barrier(); });
}

}  // namespace
}  // namespace cohort
