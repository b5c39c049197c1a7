// Random programs give the same results, or the same errors, however their replicas are spread over
// workers and wherever they are traced.
//
// COHORT_PROGRAMS says how many programs to run, COHORT_PROGRAM_SEED which is the first.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "differential/model.h"
#include "differential/topologies.h"

namespace cohort::differential {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// How what was reported differs from the rules; empty when it does not.
std::string defect(const Report& report, const Program& program, Tracing tracing) {
  if (!report.disagreement.empty()) return report.disagreement;
  return difference(report.outcome, expected(program, tracing)).value_or("");
}

std::string defect(Topology topology, const Program& program, Tracing tracing) {
  return defect(run_all(topology, {&program, 1}, tracing)[0], program, tracing);
}

// The defect alone may depend on the programs that ran before in the same group.
void report_failure(Topology topology, const Program& program, Tracing tracing,
                    const std::string& found) {
  const Program smaller = shrink(
      program, [&](const Program& each) { return !defect(topology, each, tracing).empty(); });
  ADD_FAILURE() << fmt::format("{}, {}: {}\nalone and without what it does not need: {}\n{}",
                               topology.name(), to_string(tracing), found,
                               defect(topology, smaller, tracing), to_string(smaller));
}

constexpr int kMaxReported = 5;

void check(Topology topology, std::span<const Program> programs, Tracing tracing) {
  const std::vector<Report> reports = run_all(topology, programs, tracing);
  int failures = 0;
  for (size_t i = 0; i < programs.size() && failures < kMaxReported; ++i) {
    const std::string found = defect(reports[i], programs[i], tracing);
    if (found.empty()) continue;
    ++failures;
    report_failure(topology, programs[i], tracing, found);
  }
}

std::vector<Program> make_programs(uint64_t first, uint64_t count) {
  std::vector<Program> programs;
  for (uint64_t seed = first; seed < first + count; ++seed) programs.push_back(make_program(seed));
  return programs;
}

// Programs that showed a defect. A change of make_program() makes other programs of these seeds:
// look for seeds of such programs again then.
constexpr uint64_t kSeedsOfDefects[] = {
    525,   // The replicas of one worker differ in a traced step: other workers waited for it.
    1621,  // The same, in the first statement.
};

class RandomPrograms : public ::testing::TestWithParam<std::tuple<Topology, Tracing>> {};

TEST_P(RandomPrograms, FollowTheRules) {
  const auto [topology, tracing] = GetParam();
  const std::vector<Program> programs =
      make_programs(number_from_environment("COHORT_PROGRAM_SEED", 1),
                    number_from_environment("COHORT_PROGRAMS", 2000));
  check(topology, programs, tracing);
}

TEST_P(RandomPrograms, ThatShowedADefectFollowTheRules) {
  const auto [topology, tracing] = GetParam();
  std::vector<Program> programs;
  for (const uint64_t seed : kSeedsOfDefects) programs.push_back(make_program(seed));
  check(topology, programs, tracing);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Topology, Tracing>>& tested) {
  constexpr const char* kNames[] = {"Plain", "TracedInReplica", "TracedAroundRun"};
  return fmt::format("{}Workers{}", std::get<Topology>(tested.param).workers,
                     kNames[static_cast<size_t>(std::get<Tracing>(tested.param))]);
}

INSTANTIATE_TEST_SUITE_P(All, RandomPrograms,
                         ::testing::Combine(::testing::ValuesIn(kTopologies),
                                            ::testing::ValuesIn(kTracings)),
                         name_of);

}  // namespace
}  // namespace cohort::differential
