#include "membership/bootstrap.h"

#include <gtest/gtest.h>

namespace cohort::internal {
namespace {

using Action = Bootstrap::Action;
using Actions = Bootstrap::Actions;
using Kind = BootstrapMessage::Kind;
using Time = Bootstrap::Time;

Member member(uint64_t id, uint64_t incarnation, uint64_t generation = 0) {
  return {.peer = {.name = "task " + std::to_string(id),
                   .incarnation = incarnation,
                   .address = "address " + std::to_string(id),
                   .build = "1"},
          .id = id,
          .workers = 2,
          .process = "process " + std::to_string(incarnation),
          .generation = generation};
}

Peer peer(const Member& member) {
  Peer result = member.peer;
  result.settings = encode_settings(member);
  return result;
}

Bootstrap machine(const Member& self, Time timeout = Time(60'000)) {
  WorkerList list{.workers = {{"task 0", "address 0"}, {"task 1", "address 1"}},
                  .self = static_cast<int>(self.id)};
  return Bootstrap({.workers = list, .self = self, .timeout = timeout});
}

// The messages of that kind among the actions, with their connections.
std::vector<Action> sent(const Actions& actions, Kind kind) {
  std::vector<Action> found;
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::Send && action.message.kind == kind) found.push_back(action);
  }
  return found;
}
bool has(const Actions& actions, Action::Kind kind) {
  return std::any_of(actions.begin(), actions.end(),
                     [&](const Action& action) { return action.kind == kind; });
}

TEST(Bootstrap, TheLeaderFormsTheGroupWhenAllAreConnected) {
  Bootstrap leader = machine(member(0, 10));
  EXPECT_EQ(leader.missing(), std::vector<int>{1});
  const Actions actions = leader.connected(Time(1), 5, peer(member(1, 11)));
  EXPECT_TRUE(leader.is_formed());
  EXPECT_EQ(leader.generation(), 1u);
  ASSERT_EQ(sent(actions, Kind::Formed).size(), 1u);
  EXPECT_EQ(sent(actions, Kind::Formed)[0].connection, 5u);
  EXPECT_TRUE(has(actions, Action::Kind::Finish));
}

TEST(Bootstrap, AWorkerJoinsWithTheListOfTheLeader) {
  Bootstrap worker = machine(member(1, 11));
  EXPECT_TRUE(has(worker.time_passed(Time(0)), Action::Kind::Connect));
  worker.connected(Time(1), 5, peer(member(0, 10)), 0);
  const BootstrapMessage formed{
      .kind = Kind::Formed, .number = 1, .members = {member(0, 10), member(1, 11)}};
  BootstrapMessage others = formed;
  others.members[1].peer.incarnation = 99;
  worker.received(Time(2), 5, others);
  EXPECT_FALSE(worker.is_formed());
  EXPECT_TRUE(has(worker.received(Time(3), 5, formed), Action::Kind::Finish));
  EXPECT_TRUE(worker.is_formed());
}

TEST(Bootstrap, AMemberThatHasLostTheListGetsItAgain) {
  Bootstrap leader = machine(member(0, 10));
  leader.connected(Time(1), 5, peer(member(1, 11)));
  leader.lost(Time(2), 5);
  const Actions again = leader.connected(Time(3), 6, peer(member(1, 11)));
  ASSERT_EQ(sent(again, Kind::Formed).size(), 1u);
  EXPECT_EQ(sent(again, Kind::Formed)[0].connection, 6u);
}

TEST(Bootstrap, AGenerationFollowsTheLastOneOfAnyMember) {
  Bootstrap leader = machine(member(0, 10, 0));
  leader.connected(Time(1), 5, peer(member(1, 11, 6)));
  EXPECT_EQ(leader.generation(), 7u);
}

TEST(Bootstrap, AListOfAnEarlierGenerationIsIgnored) {
  Bootstrap worker = machine(member(1, 11, 3));
  worker.time_passed(Time(0));
  worker.connected(Time(1), 5, peer(member(0, 10)), 0);
  worker.received(
      Time(2), 5,
      {.kind = Kind::Formed, .number = 3, .members = {member(0, 10), member(1, 11, 3)}});
  EXPECT_FALSE(worker.is_formed());
}

// A leader of three workers, one of which never comes.
Bootstrap waiting_leader() {
  Member self = member(0, 10);
  self.workers = 3;
  WorkerList list{.workers = {{"task 0", "a0"}, {"task 1", "a1"}, {"task 2", "a2"}}, .self = 0};
  return Bootstrap({.workers = list, .self = self});
}
Peer second(uint64_t incarnation) {
  Member self = member(1, incarnation);
  self.workers = 3;
  return peer(self);
}

TEST(Bootstrap, AProcessThatIsStartedAgainTakesThePlaceOfItsPredecessor) {
  Bootstrap leader = waiting_leader();
  leader.connected(Time(1), 5, second(11));
  EXPECT_EQ(leader.missing(), std::vector<int>{2});
  leader.connected(Time(2), 6, second(12));
  EXPECT_EQ(leader.missing(), (std::vector<int>{1, 2}));  // until one of the two is gone
  leader.lost(Time(3), 5);
  EXPECT_EQ(leader.missing(), std::vector<int>{2});
  EXPECT_TRUE(leader.failure().ok());
}

TEST(Bootstrap, APredecessorThatDoesNotAnswerIsReplaced) {
  Bootstrap leader = waiting_leader();
  leader.connected(Time(1), 5, second(11));
  EXPECT_EQ(sent(leader.connected(Time(2), 6, second(12)), Kind::Probe).size(), 2u);
  leader.received(Time(3), 6, {.kind = Kind::Alive, .number = 1});
  const Actions actions = leader.time_passed(Time(2) + Bootstrap::kProbeTime);
  EXPECT_TRUE(has(actions, Action::Kind::Close));
  EXPECT_EQ(leader.missing(), std::vector<int>{2});
}

TEST(Bootstrap, TwoLivingProcessesWithOneIndexAreAProblem) {
  Bootstrap leader = waiting_leader();
  leader.connected(Time(1), 5, second(11));
  leader.connected(Time(2), 6, second(12));
  leader.received(Time(3), 5, {.kind = Kind::Alive, .number = 1});
  const Actions actions = leader.received(Time(4), 6, {.kind = Kind::Alive, .number = 1});
  EXPECT_EQ(leader.failure().code, Code::FailedPrecondition);
  EXPECT_NE(leader.failure().message.find("both are worker 1"), std::string::npos);
  EXPECT_EQ(sent(actions, Kind::Problem).size(), 2u);
}

TEST(Bootstrap, AnotherBuildIsAProblemOnBothSidesThatNamesBoth) {
  Member other = member(1, 11);
  other.peer.build = "2";
  Bootstrap leader = machine(member(0, 10));
  Bootstrap worker = machine(other);
  leader.connected(Time(1), 5, peer(other));
  worker.time_passed(Time(0));
  worker.connected(Time(1), 5, peer(member(0, 10)), 0);
  for (const Status& failure : {leader.failure(), worker.failure()}) {
    EXPECT_EQ(failure.code, Code::FailedPrecondition);
    for (const char* const part : {"different builds of the library, 1 and 2",
                                   "task 0 (process 10)", "task 1 (process 11)"}) {
      EXPECT_NE(failure.message.find(part), std::string::npos) << failure.message;
    }
  }
}

TEST(Bootstrap, ALateProcessIsToldThatTheGroupHasBegun) {
  Bootstrap leader = machine(member(0, 10));
  leader.connected(Time(1), 5, peer(member(1, 11)));
  EXPECT_EQ(sent(leader.connected(Time(2), 6, peer(member(1, 12))), Kind::Busy).size(), 1u);
  leader.group_lost();
  EXPECT_EQ(sent(leader.connected(Time(3), 7, peer(member(1, 12))), Kind::Waiting).size(), 1u);

  Bootstrap late = machine(member(1, 12));
  for (const Time now : {Time(0), Bootstrap::kBusyTime + Time(1)}) {
    EXPECT_TRUE(late.failure().ok());
    EXPECT_TRUE(has(late.time_passed(now), Action::Kind::Connect));
    late.connected(now, 5, peer(member(0, 10)), 0);
    late.received(now, 5, {.kind = Kind::Busy, .text = "it trains"});
  }
  EXPECT_EQ(late.failure().code, Code::AlreadyExists);
}

TEST(Bootstrap, GivesUpAtTheDeadlineAndNamesTheMissing) {
  Bootstrap leader = machine(member(0, 10), Time(1000));
  leader.connect_failed(Time(500), 1, {Code::Unavailable, "nobody is there"});
  leader.time_passed(Time(1000));
  EXPECT_EQ(leader.failure().code, Code::DeadlineExceeded);
  EXPECT_NE(leader.failure().message.find("task 1 at address 1 (nobody is there)"),
            std::string::npos)
      << leader.failure().message;
  EXPECT_TRUE(has(leader.time_passed(Time(1000) + Bootstrap::kTellTime), Action::Kind::Finish));
}

// A certificate proves the name of a task and nothing else.
TEST(Bootstrap, AWorkerMustHaveTheNameOfItsIndex) {
  Bootstrap leader = machine(member(0, 10));
  Member other = member(1, 11);
  other.peer.name = "task 7";
  EXPECT_TRUE(has(leader.connected(Time(1), 5, peer(other)), Action::Kind::Close));
  EXPECT_EQ(leader.missing(), std::vector<int>{1});
}

TEST(Bootstrap, TheLeaderClosesTheConnectionsThatItOpenedWhenTheGroupIsFormed) {
  Bootstrap leader = machine(member(0, 10));
  leader.time_passed(Time(0));
  leader.connected(Time(1), 4, peer(member(1, 11)), 1);
  const Actions actions = leader.connected(Time(2), 5, peer(member(1, 11)));
  EXPECT_TRUE(leader.is_formed());
  EXPECT_TRUE(std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == Action::Kind::Close && action.connection == 4;
  }));
}

// A worker other than the leader connects only to tell what it has found.
TEST(Bootstrap, AWorkerTakesTheWordsOfAnotherWorkersProblem) {
  Member odd = member(1, 11);
  odd.replicas = 3;
  Bootstrap worker = Bootstrap({.workers = {.workers = {{"task 0", "address 0"},
                                                        {"task 1", "address 1"},
                                                        {"task 2", "address 2"}},
                                            .self = 2},
                                .self = member(2, 12),
                                .timeout = Time(60'000)});
  worker.connected(Time(1), 5, peer(odd));
  EXPECT_TRUE(worker.failure().ok());
  worker.received(Time(2), 5,
                  {.kind = Kind::Problem, .status = {Code::FailedPrecondition, "the words"}});
  EXPECT_EQ(worker.failure().message, "the words");
}

// Texts of other processes go into messages and logs.
TEST(Bootstrap, WhatOthersSayIsMadePrintable) {
  const std::string forged = "x\nERROR \x1b[31m";
  Bootstrap waiting = machine(member(1, 11));
  waiting.time_passed(Time(0));
  waiting.connected(Time(1), 5, peer(member(0, 10)), 0);
  waiting.received(Time(2), 5, {.kind = Kind::Waiting, .text = forged});
  EXPECT_NE(waiting.describe_missing().find("(x?ERROR ?[31m)"), std::string::npos);
  const Status cause{.code = Code::Unknown, .message = forged, .origin = forged};
  waiting.received(Time(3), 5,
                   {.kind = Kind::Problem,
                    .status = {.code = Code::Unknown,
                               .message = forged,
                               .cause = std::make_shared<const Status>(cause)}});
  EXPECT_EQ(waiting.failure().to_string(),
            "UNKNOWN: x?ERROR ?[31m; caused by UNKNOWN: x?ERROR ?[31m (from x?ERROR ?[31m)");

  Bootstrap late = machine(member(1, 12));
  late.time_passed(Bootstrap::kBusyTime + Time(1));
  late.connected(Bootstrap::kBusyTime + Time(1), 5, peer(member(0, 10)), 0);
  late.received(Bootstrap::kBusyTime + Time(1), 5, {.kind = Kind::Busy, .text = forged});
  EXPECT_NE(late.failure().message.find("has begun: x?ERROR ?[31m"), std::string::npos);
}

TEST(Bootstrap, AListWithOtherNamesThanTheClusterIsIgnored) {
  Bootstrap worker = machine(member(1, 11));
  worker.time_passed(Time(0));
  worker.connected(Time(1), 5, peer(member(0, 10)), 0);
  BootstrapMessage formed{
      .kind = Kind::Formed, .number = 1, .members = {member(0, 10), member(1, 11)}};
  formed.members[0].peer.name = "x\nERROR";
  worker.received(Time(2), 5, formed);
  EXPECT_FALSE(worker.is_formed());
}

// Messages of another protocol may not be understood, so the worker that connects compares too.
TEST(Bootstrap, AnotherProtocolIsAProblemOnBothSides) {
  for (const uint64_t self : {uint64_t{0}, uint64_t{1}}) {
    Bootstrap dials = machine(member(self, 10));
    Peer other = peer(member(1 - self, 11));
    other.settings[0] = 77;
    dials.time_passed(Time(0));
    dials.connected(Time(1), 5, other, static_cast<int>(1 - self));
    EXPECT_EQ(dials.failure().code, Code::FailedPrecondition);
    EXPECT_NE(dials.failure().message.find("1 and 1, whose workers join by protocols 2 and 77"),
              std::string::npos)
        << dials.failure().message;
  }
}

TEST(Bootstrap, ProgramsThatAreNotWorkersAreSentAway) {
  Bootstrap leader = machine(member(0, 10));
  const Actions actions = leader.connected(Time(1), 5, {.name = "client"});
  EXPECT_TRUE(has(actions, Action::Kind::Close));
  EXPECT_EQ(leader.missing(), std::vector<int>{1});
}

}  // namespace
}  // namespace cohort::internal
