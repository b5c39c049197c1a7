// Which checkpoints are kept, and which is the last good one.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <optional>

#include "checkpoint/checkpoint_list.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/saving.h"
#include "support/expect_error.h"
#include "support/no_descriptors.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using internal::CheckpointList;
using Names = std::vector<std::string>;

class CheckpointLists : public ::testing::Test {
 protected:
  // Hours after the beginning.
  void set_time(double hours) {
    now_ = std::chrono::system_clock::time_point(
        std::chrono::milliseconds(static_cast<int64_t>(hours * 3'600'000)));
  }
  CheckpointList list(std::optional<int> max_to_keep,
                      std::optional<std::chrono::milliseconds> keep_every = std::nullopt) {
    return CheckpointList("Saver", {.max_to_keep = max_to_keep,
                                    .keep_checkpoint_every = keep_every,
                                    .now = [this] { return now_; }});
  }
  std::chrono::system_clock::time_point now_{};
};

TEST_F(CheckpointLists, KeepTheLastFew) {
  CheckpointList kept = list(2);
  EXPECT_EQ(kept.add("a").dropped, Names{});
  EXPECT_EQ(kept.add("b").dropped, Names{});
  const auto change = kept.add("c");
  EXPECT_EQ(change.dropped, Names{"a"});
  EXPECT_EQ(change.state.latest, "c");
  EXPECT_EQ(change.state.all, (Names{"b", "c"}));
}

TEST_F(CheckpointLists, MoveANameThatIsThereToTheEnd) {
  CheckpointList kept = list(2);
  kept.add("a");
  kept.add("b");
  EXPECT_EQ(kept.add("a").dropped, Names{});
  EXPECT_EQ(kept.prefixes(), (Names{"b", "a"}));
  EXPECT_EQ(kept.add("c").dropped, Names{"b"});
}

// Deleting the older of the two would delete the new checkpoint.
TEST_F(CheckpointLists, KnowACheckpointThatIsNamedInAnotherWay) {
  CheckpointList kept = list(1);
  kept.add("directory/a");
  EXPECT_EQ(kept.add("./directory/a").dropped, Names{});
  EXPECT_EQ(kept.add(std::filesystem::absolute("directory/a").string()).dropped, Names{});
}

TEST_F(CheckpointLists, OfUnlimitedLengthListTheLastAndDeleteNothing) {
  for (const std::optional<int> unlimited : {std::optional<int>(), std::optional(0)}) {
    CheckpointList kept = list(unlimited);
    kept.add("a");
    const auto change = kept.add("b");
    EXPECT_EQ(change.dropped, Names{});
    EXPECT_EQ(change.state.all, Names{"b"});
  }
}

TEST_F(CheckpointLists, KeepOneForGoodEveryFewHours) {
  CheckpointList kept = list(1, std::chrono::hours(2));
  std::vector<Names> dropped;
  int hour = 0;
  for (const char* name : {"0h", "1h", "2h", "3h", "4h", "5h", "6h"}) {
    set_time(hour++ + 0.5);
    dropped.push_back(kept.add(name).dropped);
  }
  // Boundaries at 2 and 4 hours: the first ones after them stay.
  EXPECT_EQ(dropped, (std::vector<Names>{{}, {"0h"}, {"1h"}, {}, {"3h"}, {}, {"5h"}}));
}

TEST_F(CheckpointLists, RefuseNonsense) {
  EXPECT_ERROR(Code::InvalidArgument, "max_to_keep must be 0 (all) or more, got -1", list(-1));
  EXPECT_ERROR(Code::InvalidArgument, "keep_checkpoint_every must be positive, got 0 ms; leave it",
               list(1, std::chrono::milliseconds(0)));
}

TEST_F(CheckpointLists, KeepNoneForGoodWithoutAPeriodOrInAnEndlessOne) {
  using std::chrono::milliseconds;
  for (const auto& period : {std::optional<milliseconds>(), std::optional(milliseconds::max())}) {
    set_time(0);
    CheckpointList kept = list(1, period);
    kept.add("old");
    set_time(100'000);
    EXPECT_EQ(kept.add("new").dropped, Names{"old"});
    EXPECT_EQ(kept.add("newest").dropped, Names{"new"});
  }
}

class Directories : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string save(const std::string& name, float value) {
    const Tensor tensor(value);
    internal::write_checkpoint(path(name), std::nullopt, {{.name = "w", .dtype = kFloat32}},
                               {tensor}, nullptr);
    return path(name);
  }
  void list(const Names& names) {
    CheckpointState state{.latest = path(names.back()), .all = {}, .saved_at = {}};
    for (const std::string& name : names) {
      state.all.push_back(path(name));
      state.saved_at.emplace_back();
    }
    internal::write_state_file(directory_.path(), "checkpoint", state);
  }
  // Changes a byte of the tensor.
  static void damage(const std::string& prefix) {
    const std::string file = CheckpointReader(prefix).files()[0];
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(-1, std::ios::end);
    bytes.put('!');
  }
  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(Directories, SayWhichIsTheLatest) {
  save("a", 1);
  save("b", 2);
  list({"a", "b"});
  const auto state = get_checkpoint_state(directory());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->latest, path("b"));
  EXPECT_EQ(state->all, (Names{path("a"), path("b")}));
  EXPECT_EQ(latest_checkpoint(directory()), path("b"));
}

TEST_F(Directories, MayMoveWithTheirList) {
  save("sub/a", 1);
  internal::write_state_file(path("sub"), "checkpoint",
                             {.latest = path("sub/a"), .all = {path("sub/a")}, .saved_at = {{}}});
  std::filesystem::rename(path("sub"), path("moved"));
  EXPECT_EQ(latest_checkpoint(path("moved")), path("moved/a"));
}

// The directory is written in other ways than the prefixes are.
TEST_F(Directories, MayMoveWithTheirListHoweverTheyWereNamed) {
  save("sub/a", 1);
  save("sub/b", 2);
  save("sub/deep/c", 3);
  std::filesystem::create_directory_symlink(path("sub"), path("link"));
  const Names all{path("sub/a"), path("link/b"), path("./sub/deep/../a"), path("sub/deep/c")};
  internal::write_state_file(std::filesystem::relative(path("sub")).string(), "checkpoint",
                             {.latest = all[3], .all = all, .saved_at = {{}, {}, {}, {}}});
  std::filesystem::remove(path("link"));
  std::filesystem::rename(path("sub"), path("moved"));
  EXPECT_EQ(get_checkpoint_state(path("moved"))->all,
            (Names{path("moved/a"), path("moved/b"), path("moved/a"), path("moved/deep/c")}));
  EXPECT_EQ(latest_checkpoint(path("moved")), path("moved/deep/c"));
}

// A program that was restarted with another name of its directory goes on with one list.
TEST_F(Directories, MayMoveWithAListOfRelativeAndAbsolutePrefixes) {
  for (const bool relative_first : {false, true}) {
    const std::string before = relative_first ? "sub1" : "sub0";
    const std::string after = path("moved_" + before);
    const std::string a = save(before + "/a", 1), b = save(before + "/b", 2);
    const auto relative = [](const std::string& prefix) {
      return std::filesystem::relative(prefix).string();
    };
    CheckpointList kept("Saver", {.max_to_keep = 2});
    kept.keep(relative_first ? relative(a) : a, "checkpoint", {});
    kept.keep(relative_first ? b : relative(b), "checkpoint", {});
    std::filesystem::rename(path(before), after);
    EXPECT_EQ(get_checkpoint_state(after)->all, (Names{after + "/a", after + "/b"}));
    EXPECT_EQ(latest_checkpoint(after), after + "/b");
    std::ifstream file(after + "/checkpoint");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(text.find(before), std::string::npos) << text;
  }
}

TEST_F(Directories, WithoutCheckpointsHaveNoLatest) {
  EXPECT_EQ(latest_checkpoint(directory()), std::nullopt);
  EXPECT_EQ(latest_checkpoint(path("nowhere")), std::nullopt);
  EXPECT_EQ(get_checkpoint_state(directory()), std::nullopt);
}

TEST_F(Directories, AreNotEmptyBecauseThisProcessCannotOpenThem) {
  save("a", 1);
  // UBSan needs a descriptor to check the object of a member function.
  const std::string here = directory();
  const auto expect_shortage = [&] {
    const NoDescriptors none;
    EXPECT_ERROR(Code::ResourceExhausted, here, latest_checkpoint(here));
  };
  expect_shortage();
  list({"a"});
  expect_shortage();
  const NoDescriptors none;
  EXPECT_ERROR(Code::ResourceExhausted, here, get_checkpoint_state(here));
}

TEST_F(Directories, PassOverWhatIsDamaged) {
  save("a", 1);
  save("b", 2);
  save("c", 3);
  list({"a", "b", "c"});
  damage(path("c"));
  EXPECT_EQ(latest_checkpoint(directory()), path("b"));
  EXPECT_EQ(latest_checkpoint(directory(), {.check = CheckpointCheck::Sizes}), path("c"));
  std::filesystem::remove(CheckpointReader(path("b")).files()[0]);
  EXPECT_EQ(latest_checkpoint(directory()), path("a"));
  std::filesystem::resize_file(CheckpointReader(path("a")).files()[0], 20);
  EXPECT_EQ(latest_checkpoint(directory(), {.check = CheckpointCheck::Sizes}), path("c"));
  EXPECT_EQ(latest_checkpoint(directory()), std::nullopt);
}

TEST_F(Directories, PassOverWhatIsGone) {
  save("a", 1);
  save("b", 2);
  list({"a", "b"});
  remove_checkpoint(path("b"));
  EXPECT_EQ(latest_checkpoint(directory()), path("a"));
}

TEST_F(Directories, WithAnUnreadableListGiveTheNewest) {
  save("a", 1);
  std::ofstream(path("checkpoint")) << "{ not json";
  EXPECT_EQ(get_checkpoint_state(directory()), std::nullopt);
  EXPECT_EQ(latest_checkpoint(directory()), path("a"));
}

TEST_F(Directories, WithAListThatNamesNoLatestAreAnError) {
  std::ofstream(path("checkpoint")) << R"({"all_model_checkpoint_paths": ["a"]})";
  EXPECT_ERROR(Code::InvalidArgument, "does not name the latest checkpoint",
               get_checkpoint_state(directory()));
  EXPECT_ERROR(Code::InvalidArgument, "does not name the latest checkpoint",
               latest_checkpoint(directory()));
}

TEST_F(Directories, RefillAListWithWhatStillExists) {
  save("a", 1);
  save("c", 3);
  CheckpointList kept("Saver", {.max_to_keep = 2});
  kept.recover({path("a"), path("b"), path("c")});
  EXPECT_EQ(kept.prefixes(), (Names{path("a"), path("c")}));
}

}  // namespace
}  // namespace cohort
