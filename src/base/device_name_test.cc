#include <gtest/gtest.h>

#include <sstream>

#include "cohort/device.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

std::string reprinted(std::string_view text) { return DeviceName::parse(text).to_string(); }

TEST(DeviceName, ParsesEveryPart) {
  const DeviceName name = DeviceName::parse("/job:worker/replica:1/task:2/device:GPU:3");
  EXPECT_EQ(name.job, "worker");
  EXPECT_EQ(name.replica, 1);
  EXPECT_EQ(name.task, 2);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.index, 3);
  EXPECT_TRUE(name.is_full());
}

TEST(DeviceName, TakesPartsInAnyOrderAndPrintsThemInOne) {
  const DeviceName name = DeviceName::parse("/task:4/job:train_pool/gpu:1");
  EXPECT_EQ(name.job, "train_pool");
  EXPECT_EQ(name.task, 4);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.index, 1);
  EXPECT_FALSE(name.replica.has_value());
  EXPECT_FALSE(name.is_full());
  EXPECT_EQ(name.to_string(), "/job:train_pool/task:4/device:GPU:1");
  EXPECT_EQ(reprinted("/device:CPU:0/task:3/replica:2/job:a"),
            "/job:a/replica:2/task:3/device:CPU:0");
}

TEST(DeviceName, SlashAndNothingMatchAnything) {
  EXPECT_EQ(DeviceName::parse("/"), DeviceName{});
  EXPECT_EQ(DeviceName::parse(""), DeviceName{});
  EXPECT_EQ(DeviceName{}.to_string(), "");
}

TEST(DeviceName, StarMeansUnset) {
  EXPECT_EQ(DeviceName::parse("/job:*/replica:*/task:*/device:*"), DeviceName{});
  EXPECT_EQ(DeviceName::parse("/device:*:*"), DeviceName{});
  EXPECT_EQ(reprinted("/device:GPU:*"), "/device:GPU:*");
  EXPECT_EQ(reprinted("/cpu:*"), "/device:CPU:*");
  EXPECT_EQ(reprinted("/device:*:2"), "/device:*:2");
}

TEST(DeviceName, TypeWithoutIndexPrintsAStar) {
  EXPECT_EQ(reprinted("/device:GPU"), "/device:GPU:*");
}

TEST(DeviceName, ShortFormUpperCasesTheTypeAndLongFormKeepsIt) {
  for (const char* text : {"/cpu:1", "/CPU:1"}) EXPECT_EQ(reprinted(text), "/device:CPU:1");
  for (const char* text : {"/gpu:1", "/GPU:1"}) EXPECT_EQ(reprinted(text), "/device:GPU:1");
  EXPECT_EQ(reprinted("/device:gpu:1"), "/device:gpu:1");
  EXPECT_EQ(reprinted("/device:my_Chip2:1"), "/device:my_Chip2:1");
}

TEST(DeviceName, RejectsWhatTheGrammarDoesNotHave) {
  for (const char* text : {"job:a",
                           "CPU:0",
                           "x",
                           "//",
                           "/job:a/",
                           "/job:a//task:0",
                           "/job",
                           "/job:",
                           "/job:1a",
                           "/job:_a",
                           "/job:a-b",
                           "/job:a b",
                           "/job:a:b",
                           "/replica:",
                           "/replica:a",
                           "/replica:-1",
                           "/task:-1",
                           "/task:+1",
                           "/task:1x",
                           "/task: 1",
                           "/task:99999999999",
                           "/task:1:2",
                           "/device:",
                           "/device::0",
                           "/device:CPU:",
                           "/device:CPU:-1",
                           "/device:CPU:x",
                           "/device:CPU:0:0",
                           "/device:1:0",
                           "/cpu",
                           "/cpu:",
                           "/cpu:-1",
                           "/Cpu:0",
                           "/tpu:0",
                           "/host:a",
                           "/JOB:a",
                           "/job:a/task:0x",
                           "/job:a/job:b",
                           "/task:1/task:1",
                           "/cpu:0/device:GPU:0",
                           "/cpu:0/gpu:0",
                           " /job:a",
                           "/job:a "}) {
    EXPECT_FALSE(DeviceName::try_parse(text).has_value()) << text;
  }
}

TEST(DeviceName, ErrorQuotesTheText) {
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1a'", DeviceName::parse("/job:1a"));
  EXPECT_ERROR(Code::InvalidArgument, "'gpu-2'", DeviceName::parse_any_form("gpu-2"));
}

TEST(DeviceName, LocalNameIsTypeAndIndex) {
  const DeviceName name = DeviceName::parse_local("GPU:2");
  EXPECT_EQ(name.to_string(), "/device:GPU:2");
  for (const char* text : {"", "GPU", "GPU:*", "*:0", "/GPU:0", "GPU:-1", "GPU:0:0", "0:GPU"}) {
    EXPECT_ERROR(Code::InvalidArgument, std::string("'") + text + "'",
                 DeviceName::parse_local(text));
  }
}

TEST(DeviceName, AnyFormReadsLocalNamesAndUpperCasesTheType) {
  EXPECT_EQ(DeviceName::parse_any_form("gpu:2").to_string(), "/device:GPU:2");
  EXPECT_EQ(DeviceName::parse_any_form("cpu").to_string(), "/device:CPU:*");
  EXPECT_EQ(DeviceName::parse_any_form("/device:gpu:2").to_string(), "/device:GPU:2");
  EXPECT_EQ(DeviceName::parse_any_form("/task:1").to_string(), "/task:1");
  EXPECT_EQ(DeviceName::parse_any_form(""), DeviceName{});
}

TEST(DeviceName, SplitsIntoTaskAndLocalName) {
  const auto [task, local] = DeviceName::parse("/job:a/replica:0/task:1/gpu:2").split();
  EXPECT_EQ(task, "/job:a/replica:0/task:1");
  EXPECT_EQ(local, "GPU:2");
  EXPECT_EQ(DeviceName::parse("/cpu:0").split().first, "");
  EXPECT_ERROR(Code::InvalidArgument, "'/job:a'", DeviceName::parse("/job:a").split());
  EXPECT_ERROR(Code::InvalidArgument, "GPU:*", DeviceName::parse("/device:GPU").split());
}

TEST(DeviceName, SameTaskNeedsJobReplicaAndTaskOnBoth) {
  const DeviceName full = DeviceName::parse("/job:a/replica:0/task:1/cpu:0");
  EXPECT_TRUE(full.same_task(DeviceName::parse("/job:a/replica:0/task:1/gpu:3")));
  for (const char* other : {"/job:b/replica:0/task:1", "/job:a/replica:1/task:1",
                            "/job:a/replica:0/task:2", "/job:a/task:1", "/job:a/replica:0", "/"}) {
    EXPECT_FALSE(full.same_task(DeviceName::parse(other))) << other;
    EXPECT_FALSE(DeviceName::parse(other).same_task(full)) << other;
  }
  EXPECT_FALSE(DeviceName::parse("/job:a/task:1").same_task(DeviceName::parse("/job:a/task:1")));
}

TEST(DeviceName, PatternMatchesWhenEverySetPartAgrees) {
  const DeviceName device = DeviceName::parse("/job:a/replica:0/task:1/device:GPU:2");
  for (const char* pattern : {"/", "/job:a", "/task:1", "/gpu:2", "/device:GPU", "/device:*:2",
                              "/job:a/replica:0/task:1/device:GPU:2"}) {
    EXPECT_TRUE(DeviceName::parse(pattern).matches(device)) << pattern;
  }
  for (const char* pattern :
       {"/job:b", "/replica:1", "/task:2", "/cpu:2", "/gpu:1", "/job:a/task:0", "/device:gpu:2"}) {
    EXPECT_FALSE(DeviceName::parse(pattern).matches(device)) << pattern;
  }
}

TEST(DeviceName, InnerScopeFillsItsMissingPartsFromTheOuter) {
  struct Case {
    const char* outer;
    const char* inner;
    const char* both;
  };
  for (const Case& scope : {
           Case{"/job:trainer/device:GPU:3", "/task:5", "/job:trainer/task:5/device:GPU:3"},
           Case{"/job:trainer/task:1", "/job:store", "/job:store/task:1"},
           Case{"/device:CPU:4", "/device:CPU:*", "/device:CPU:4"},
           Case{"/job:a/replica:1", "", "/job:a/replica:1"},
           Case{"", "/job:a", "/job:a"},
       }) {
    EXPECT_EQ(
        DeviceName::parse(scope.inner).filled_from(DeviceName::parse(scope.outer)).to_string(),
        scope.both);
  }
}

TEST(DeviceName, PrintsToAStream) {
  std::ostringstream out;
  out << DeviceName::parse("/task:1/job:a");
  EXPECT_EQ(out.str(), "/job:a/task:1");
}

std::string merged(const char* a, const char* b, Placement placement) {
  return merge_requests(DeviceName::parse(a), DeviceName::parse(b), placement).to_string();
}

TEST(MergeRequests, UnitesWhatDoesNotClash) {
  for (const Placement placement : {Placement::Hard, Placement::Soft}) {
    EXPECT_EQ(merged("/job:a", "/task:1/gpu:0", placement), "/job:a/task:1/device:GPU:0");
    EXPECT_EQ(merged("/device:GPU:*", "/device:GPU:2", placement), "/device:GPU:2");
    EXPECT_EQ(merged("/", "/job:a", placement), "/job:a");
    EXPECT_EQ(merged("/job:a/gpu:1", "/job:a/gpu:1", placement), "/job:a/device:GPU:1");
  }
}

TEST(MergeRequests, TaskClashesAreErrorsEvenWhenSoft) {
  for (const Placement placement : {Placement::Hard, Placement::Soft}) {
    EXPECT_ERROR(Code::InvalidArgument, "the job of '/job:a' and '/job:b'",
                 merged("/job:a", "/job:b", placement));
    EXPECT_ERROR(Code::InvalidArgument, "the replica of '/replica:0' and '/replica:1'",
                 merged("/replica:0", "/replica:1", placement));
    EXPECT_ERROR(Code::InvalidArgument, "the task of '/task:0' and '/task:1'",
                 merged("/task:0", "/task:1", placement));
  }
}

TEST(MergeRequests, DeviceClashesAreErrorsWhenHard) {
  EXPECT_ERROR(Code::InvalidArgument, "the device type of '/device:CPU:0' and '/device:GPU:0'",
               merged("/cpu:0", "/gpu:0", Placement::Hard));
  EXPECT_ERROR(Code::InvalidArgument, "the device index of '/device:GPU:0' and '/device:GPU:1'",
               merged("/gpu:0", "/gpu:1", Placement::Hard));
}

TEST(MergeRequests, DeviceClashesDropTheRequestWhenSoft) {
  EXPECT_EQ(merged("/job:a/cpu:0", "/gpu:0", Placement::Soft), "/job:a");
  EXPECT_EQ(merged("/cpu:0", "/device:GPU", Placement::Soft), "");
  EXPECT_EQ(merged("/gpu:0", "/task:2/gpu:1", Placement::Soft), "/task:2/device:GPU:*");
}

TEST(MergeRequests, IsSymmetricAndIdempotent) {
  const char* const names[] = {
      "/",      "/job:a", "/job:a/task:1", "/gpu:0",
      "/gpu:1", "/cpu:0", "/device:GPU:*", "/job:a/task:1/replica:0/gpu:1"};
  for (const char* a : names) {
    EXPECT_EQ(merged(a, a, Placement::Hard), reprinted(a));
    for (const char* b : names) {
      EXPECT_EQ(merged(a, b, Placement::Soft), merged(b, a, Placement::Soft)) << a << " " << b;
    }
  }
}

TEST(CanonicalDevice, FillsInTheLocalTask) {
  EXPECT_EQ(canonical_device("gpu:2"), "/job:localhost/replica:0/task:0/device:GPU:2");
  for (const char* text : {"cpu:0", "/cpu:0", "CPU:0", "/device:CPU:0", "/device:cpu:0", "", "/"}) {
    EXPECT_EQ(canonical_device(text), "/job:localhost/replica:0/task:0/device:CPU:0") << text;
  }
}

TEST(CanonicalDevice, TakesDefaultsBeforeTheLocalTask) {
  EXPECT_EQ(canonical_device("/task:3", "/job:w/gpu:1"), "/job:w/replica:0/task:3/device:GPU:1");
  EXPECT_EQ(canonical_device("/job:a", "gpu:1"), "/job:a/replica:0/task:0/device:GPU:1");
}

TEST(CanonicalDevice, RejectsNamesThatAreNone) {
  EXPECT_ERROR(Code::InvalidArgument, "'CPU:-1'", canonical_device("CPU:-1"));
  EXPECT_ERROR(Code::InvalidArgument, "'/cpu'", canonical_device("CPU:0", "/cpu"));
}

}  // namespace
}  // namespace cohort
