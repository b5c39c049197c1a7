#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "cli/cluster_text.h"
#include "cli/crash_record.h"
#include "cli/doctor.h"
#include "cli/held_port.h"
#include "cli/node_messages.h"
#include "cli/run_plan.h"
#include "cli/status.h"
#include "cli/task_output.h"
#include "support/expect_error.h"

namespace cohort::cli {
namespace {

TEST(LineCutter, GivesLinesHoweverTheyArrive) {
  std::vector<std::string> lines;
  LineCutter cutter([&](std::string_view line) { lines.emplace_back(line); });
  cutter.add("on");
  cutter.add("e\n\ntwo\nthr");
  cutter.add("ee");
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two"}));
  cutter.finish();
  cutter.finish();
  EXPECT_EQ(lines.back(), "three");
  EXPECT_EQ(lines.size(), 4U);
}

TEST(TaskLog, SaysWhyALineIsNotKept) {
  TaskLog log("/dev/full");
  EXPECT_EQ(log.add("a line"), "No space left on device");
  EXPECT_EQ(log.add("another"), "No space left on device");
  EXPECT_EQ(TaskLog("/dev/null").add("a line"), "");
}

TEST(Text, OfProgramsIsMadePrintable) {
  EXPECT_EQ(printable("plain \xc3\xbc"), "plain \xc3\xbc");
  EXPECT_EQ(printable("1 %\r2 %\r"), "2 %");
  EXPECT_EQ(printable("\033[1;31mred\033[0m \a\x7f"), "red   ");
  EXPECT_EQ(printable("cut \033[3"), "cut ");
  EXPECT_EQ(shortened("12345678", 8), "12345678");
  EXPECT_EQ(shortened("123456789", 8), "12345...");
  EXPECT_EQ(shortened("1234\xc3\xbc"
                      "789",
                      8),
            "1234...")
      << "no half letter";
}

TEST(StatusTable, DoesNotBlameAChiefThatOnlyCoordinates) {
  std::vector<AskedTask> tasks(2);
  tasks[0].label = "chief:0";
  tasks[1].label = "worker:0";
  for (AskedTask& task : tasks) {
    task.problem.code = Code::Unavailable;
    task.problem.message = "nobody listens";
  }
  const std::string table = status_table(tasks, tasks, 1);
  EXPECT_NE(table.find("chief:0        does not listen; a chief"), std::string::npos) << table;
  EXPECT_NE(table.find("worker:0       nobody listens"), std::string::npos) << table;
}

TEST(StatusTable, ShowsHowFarATrainingIsAlsoOfATaskThatDoesNotListen) {
  std::vector<AskedTask> tasks(1);
  tasks[0].label = "worker:0";
  tasks[0].problem = {.code = Code::Unavailable, .message = "no answer"};
  tasks[0].progress = "epoch 2/5 step 7  loss 0.5  3 min left";
  EXPECT_TRUE(status_table(tasks, tasks, 1)
                  .ends_with("worker:0       does not listen; a task that trains alone need not\n"
                             "  epoch 2/5 step 7  loss 0.5  3 min left\n"))
      << status_table(tasks, tasks, 1);
}

TEST(ProgressFile, IsReadAsItWasWrittenAndRemovedWithTheLastTraining) {
  char folder[] = "/tmp/cohort_progress_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  EXPECT_TRUE(read_progress_file(folder).empty());
  const std::map<std::string, std::string> told = {{"chief:0", "epoch 1/2"}, {"worker:0", "x"}};
  write_progress_file(folder, told);
  EXPECT_EQ(read_progress_file(folder), told);
  write_progress_file(folder, {{"chief:0", "a name cut in a letter \xc3"}});
  EXPECT_TRUE(read_progress_file(folder).at("chief:0").starts_with("a name cut in a letter "));
  write_progress_file(folder, {});
  EXPECT_TRUE(read_progress_file(folder).empty());
  EXPECT_EQ(rmdir(folder), 0) << "no file is left";
}

TEST(HeldPort, IsNotGivenToOthers) {
  const HeldPort one("127.0.0.1"), two("127.0.0.1");
  EXPECT_NE(one.number(), 0);
  EXPECT_NE(one.number(), two.number());
  EXPECT_ERROR(Code::ResourceExhausted, "no port can be had at 203.0.113.1",
               HeldPort("203.0.113.1"));
}

TEST(RunPlan, CountsTheRanksOfThoseWhoTrain) {
  RunPlan plan{.master_host = "a", .master_port = 7};
  const std::vector<TaskId> tasks =
      tasks_of({.workers = 2, .ps = 1, .chief = true, .evaluator = true});
  for (size_t i = 0; i < tasks.size(); ++i) {
    plan.places.push_back({tasks[i], i < 2 ? "a" : "b", static_cast<int>(100 + i)});
  }
  const Environment second_worker = environment_of(plan, 2);
  EXPECT_EQ(second_worker.at("RANK"), "2");
  EXPECT_EQ(second_worker.at("WORLD_SIZE"), "3");
  EXPECT_EQ(second_worker.at("LOCAL_RANK"), "0");
  EXPECT_EQ(second_worker.at("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(second_worker.at("MASTER_PORT"), "7");
  EXPECT_FALSE(environment_of(plan, 3).contains("RANK"));
  EXPECT_FALSE(cluster_of(plan).has_job("evaluator"));
  EXPECT_EQ(cluster_of(plan).task_address("worker", 1), "b:102");
  EXPECT_ERROR(Code::InvalidArgument, "nobody who trains", tasks_of({.ps = 1}));
}

TEST(ClusterText, IsWordsOrJson) {
  const ClusterSpec expected({{"ps", {"h0:1"}}, {"worker", {"h1:1", "h2:1"}}});
  EXPECT_EQ(parse_cluster("ps=h0:1;worker=h1:1,h2:1"), expected);
  EXPECT_EQ(parse_cluster(R"({"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]})"), expected);
  EXPECT_ERROR(Code::InvalidArgument, "is not job=host:port", parse_cluster("h0:1"));
  EXPECT_ERROR(Code::InvalidArgument, "has no addresses", parse_cluster("ps="));
  EXPECT_ERROR(Code::InvalidArgument, "no JSON of jobs", parse_cluster("{\"ps\": 3}"));
  EXPECT_ERROR(Code::InvalidArgument, "'ps' is given twice", parse_cluster("ps=h0:1;ps=h1:1"));
  EXPECT_ERROR(Code::InvalidArgument, "the key 'ps' twice",
               parse_cluster(R"({"ps": ["h0:1"], "ps": ["h1:1"]})"));
  EXPECT_ERROR(Code::InvalidArgument, "[Cluster] the cluster is not JSON", parse_cluster("{"));
}

TEST(Doctor, GuessesWhatATfConfigWasMeantToBe) {
  EXPECT_EQ(corrected_tf_config(R"({"cluster":{"workers":"h:1"}})"),
            R"({"cluster":{"worker":["h:1"]}})");
  EXPECT_FALSE(corrected_tf_config(R"({"cluster":{"worker":["h:1"]}})"));
  EXPECT_FALSE(corrected_tf_config("{"));
}

TEST(CrashRecord, OfNonsenseIsEmpty) { EXPECT_TRUE(read_crash_record("/no/such/file").empty()); }

TaskStart sample_start() {
  return {.task = 3,
          .label = "worker:1",
          .command = {"./train", "--epochs", "3"},
          .environment = {{"RANK", "1"}, {"EMPTY", ""}},
          .folder = "/home/me",
          .memory_limit_bytes = 1 << 30};
}

NodeEnding sample_ending() {
  return {.task = 2,
          .ending = {.status = 11,
                     .seconds = 1.5,
                     .peak_bytes = 77,
                     .killed_for_memory = true,
                     .crash = {.signal = 11, .code = -6, .address = 8, .frames = {"f at a.cc:1"}},
                     .last_lines = {"one", "two"}}};
}

NodeWaits sample_waits() {
  return {
      .task = 5,
      .waits = {{.kind = internal::WaitKind::Answer,
                 .what = "step 7",
                 .whom = {"ps:0", "h:2222"},
                 .seconds = 6.25},
                {.kind = internal::WaitKind::Tensor, .what = "call 3", .whom = {}, .seconds = 5}}};
}
NodePlace sample_place() {
  return {.task = 1, .place = {.doing = "sleeps", .input_seconds = 2.5, .frames = {"f", "main"}}};
}

TEST(NodeMessages, ArriveAsTheyWereSent) {
  const TaskStart start = decode<NodeStart>(encode(NodeStart{sample_start()})).start;
  EXPECT_EQ(start.command, sample_start().command);
  EXPECT_EQ(start.environment, sample_start().environment);
  EXPECT_EQ(start.memory_limit_bytes, sample_start().memory_limit_bytes);
  const auto ending = decode<NodeEnding>(encode(sample_ending()));
  EXPECT_EQ(ending.task, 2U);
  EXPECT_EQ(ending.ending.status, 11);
  EXPECT_EQ(ending.ending.seconds, 1.5);
  EXPECT_EQ(ending.ending.crash.code, -6);
  EXPECT_EQ(ending.ending.crash.frames, sample_ending().ending.crash.frames);
  EXPECT_EQ(ending.ending.last_lines, sample_ending().ending.last_lines);
  EXPECT_EQ(decode<NodeHold>(encode(NodeHold{3})).ports, 3);
  EXPECT_EQ(decode<NodeHeld>(encode(NodeHeld{{1, 65535}})).ports, (std::vector<int>{1, 65535}));
  EXPECT_EQ(decode<NodeLine>(encode(NodeLine{1, Stream::Errors, "\xff\n"})).text, "\xff\n");
  EXPECT_EQ(decode<NodeSignal>(encode(NodeSignal{4, 15})).signal, 15);
  EXPECT_EQ(decode<NodeWhere>(encode(NodeWhere{9})).task, 9U);
  EXPECT_EQ(decode<NodeClock>(encode(NodeClock{std::chrono::nanoseconds(1)})).time.count(), 1);
  const auto told = decode<NodeWaits>(encode(sample_waits()));
  EXPECT_EQ(told.task, 5U);
  ASSERT_EQ(told.waits.size(), 2U);
  EXPECT_EQ(told.waits[0].kind, internal::WaitKind::Answer);
  EXPECT_EQ(told.waits[0].whom, sample_waits().waits[0].whom);
  EXPECT_EQ(told.waits[0].seconds, 6.25);
  EXPECT_EQ(told.waits[1].what, "call 3");
  const auto place = decode<NodePlace>(encode(sample_place()));
  EXPECT_EQ(place.place.doing, "sleeps");
  EXPECT_EQ(place.place.input_seconds, 2.5);
  EXPECT_EQ(place.place.frames, sample_place().place.frames);
  const auto progress = decode<NodeProgress>(
      encode(NodeProgress{.task = 4, .note = {.text = "epoch 1/2", .quiet = true}}));
  EXPECT_EQ(progress.task, 4U);
  EXPECT_EQ(progress.note, (internal::ProgressNote{.text = "epoch 1/2", .quiet = true}));
  EXPECT_EQ(decode<NodeOffer>(encode(NodeOffer{"a", "10.0.0.1"})).address, "10.0.0.1");
}

TEST(NodeMessages, OfTooManyPortsOrOfAnotherKindAreRefused) {
  EXPECT_ERROR(Code::DataLoss, "4097 is more than the 4096 allowed here",
               decode<NodeHold>(encode(NodeHold{kMaxPorts + 1})));
  EXPECT_ERROR(Code::DataLoss, "of another kind", decode<NodeHold>(encode(NodeWhere{1})));
}

// A message that is damaged at any byte, or cut anywhere, is read or refused.
TEST(NodeMessages, ThatAreDamagedAreRefusedAndNothingWorse) {
  std::mt19937 random(1);
  for (const internal::Message& good : {encode(NodeStart{sample_start()}), encode(sample_ending()),
                                        encode(sample_waits()), encode(sample_place())}) {
    for (int i = 0; i < 2000; ++i) {
      internal::Message bad = good;
      bad.header[random() % bad.header.size()] = static_cast<char>(random());
      if (i % 3 == 0) bad.header.resize(random() % bad.header.size());
      for (const Status& status : {capture_status([&] { (void)decode<NodeStart>(bad); }),
                                   capture_status([&] { (void)decode<NodeEnding>(bad); }),
                                   capture_status([&] { (void)decode<NodeWaits>(bad); }),
                                   capture_status([&] { (void)decode<NodePlace>(bad); }),
                                   capture_status([&] { (void)decode<NodeProgress>(bad); }),
                                   capture_status([&] { (void)kind_of(bad); })}) {
        EXPECT_TRUE(status.ok() || status.code == Code::DataLoss) << status;
      }
    }
  }
}

}  // namespace
}  // namespace cohort::cli
