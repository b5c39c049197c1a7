#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "launch/local_network.h"
#include "launch/run_directory.h"
#include "launch/run_layout.h"
#include "launch/task_ending.h"
#include "launch/task_host.h"
#include "launch/task_output.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

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

TEST(ProgressFile, IsReadAsItWasWrittenAndRemovedWithTheLastTraining) {
  char directory[] = "/tmp/cohort_progress_XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  EXPECT_TRUE(read_progress_file(directory).empty());
  const std::map<std::string, std::string> decoded = {{"chief:0", "epoch 1/2"}, {"worker:0", "x"}};
  write_progress_file(directory, decoded);
  EXPECT_EQ(read_progress_file(directory), decoded);
  write_progress_file(directory, {{"chief:0", "a name cut in a letter \xc3"}});
  EXPECT_TRUE(read_progress_file(directory).at("chief:0").starts_with("a name cut in a letter "));
  write_progress_file(directory, {});
  EXPECT_TRUE(read_progress_file(directory).empty());
  EXPECT_EQ(rmdir(directory), 0) << "no file is left";
}

// The program has printed the last line of an epoch itself.
TEST(ProgressView, PrintsNoLineThatTheTaskHasPrinted) {
  const TemporaryDirectory directory;
  std::vector<std::string> lines;
  ProgressView view(
      directory.path(), {"chief:0"},
      [&](size_t, const std::string& text) { lines.push_back(text); }, std::chrono::seconds(0));
  view.set(0, {.text = "epoch 1/2 step 3"});
  view.set(0, {.text = "epoch 1/2 step 4", .printed = true});
  view.set(0, {.text = "epoch 2/2 step 5"});
  EXPECT_EQ(lines, (std::vector<std::string>{"epoch 1/2 step 3", "epoch 2/2 step 5"}));
}

TEST(ProgressView, PrintsNoLineWithinTheInterval) {
  const TemporaryDirectory directory;
  std::vector<std::string> lines;
  ProgressView view(
      directory.path(), {"chief:0"},
      [&](size_t, const std::string& text) { lines.push_back(text); }, std::chrono::hours(1));
  for (int step = 1; step <= 100; ++step) {
    view.set(0, {.text = "epoch 1/2 step " + std::to_string(step)});
  }
  EXPECT_EQ(lines, std::vector<std::string>());
  EXPECT_EQ(read_progress_file(directory.path()).at("chief:0"), "epoch 1/2 step 100");
}

TEST(HeldPort, IsNotGivenToOthers) {
  const HeldPort one("127.0.0.1"), two("127.0.0.1");
  EXPECT_NE(one.number(), 0);
  EXPECT_NE(one.number(), two.number());
  EXPECT_ERROR(Code::ResourceExhausted, "no port is free at 203.0.113.1", HeldPort("203.0.113.1"));
}

TEST(RunLayout, CountsTheRanksOfTheTasksThatTrain) {
  RunLayout layout{.master_host = "a", .master_port = 7};
  const std::vector<TaskId> tasks =
      tasks_of({.workers = 2, .ps = 1, .chief = true, .evaluator = true});
  for (size_t i = 0; i < tasks.size(); ++i) {
    layout.places.push_back({tasks[i], i < 2 ? "a" : "b", static_cast<int>(100 + i)});
  }
  const Environment second_worker = environment_of(layout, 2);
  EXPECT_EQ(second_worker.at("RANK"), "2");
  EXPECT_EQ(second_worker.at("WORLD_SIZE"), "3");
  EXPECT_EQ(second_worker.at("LOCAL_RANK"), "0");
  EXPECT_EQ(second_worker.at("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(second_worker.at("MASTER_PORT"), "7");
  EXPECT_FALSE(environment_of(layout, 3).contains("RANK"));
  EXPECT_FALSE(cluster_of(layout).has_job("evaluator"));
  EXPECT_EQ(cluster_of(layout).task_address("worker", 1), "b:102");
  EXPECT_ERROR(Code::InvalidArgument, "no task trains", tasks_of({.ps = 1}));
}

TEST(ClusterText, IsWordsOrJson) {
  const ClusterSpec expected({{"ps", {"h0:1"}}, {"worker", {"h1:1", "h2:1"}}});
  EXPECT_EQ(parse_cluster("ps=h0:1;worker=h1:1,h2:1"), expected);
  EXPECT_EQ(parse_cluster(R"({"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]})"), expected);
  EXPECT_ERROR(Code::InvalidArgument, "is not job=host:port", parse_cluster("h0:1"));
  EXPECT_ERROR(Code::InvalidArgument, "has no addresses", parse_cluster("ps="));
  EXPECT_ERROR(Code::InvalidArgument, "must be JSON of jobs", parse_cluster("{\"ps\": 3}"));
  EXPECT_ERROR(Code::InvalidArgument, "'ps' is given twice", parse_cluster("ps=h0:1;ps=h1:1"));
  EXPECT_ERROR(Code::InvalidArgument, "the key 'ps' twice",
               parse_cluster(R"({"ps": ["h0:1"], "ps": ["h1:1"]})"));
  EXPECT_ERROR(Code::InvalidArgument, "[Cluster] the cluster is not JSON", parse_cluster("{"));
}

TEST(CrashRecord, OfNonsenseIsEmpty) { EXPECT_TRUE(read_crash_record("/no/such/file").empty()); }

TaskStart sample_start() {
  return {.task = 3,
          .id = {"worker", 1},
          .command = {"./train", "--epochs", "3"},
          .environment = {{"RANK", "1"}, {"EMPTY", ""}},
          .directory = "/home/me",
          .memory_limit_bytes = 1 << 30};
}

MachineEnding sample_ending() {
  return {.task = 2,
          .value = {.status = 11,
                    .seconds = 1.5,
                    .peak_bytes = 77,
                    .killed_for_memory = true,
                    .crash = {.signal = 11, .code = -6, .address = 8, .frames = {"f at a.cc:1"}},
                    .last_lines = {"one", "two"}}};
}

MachineWaits sample_waits() {
  return {
      .task = 5,
      .value = {{.kind = internal::WaitKind::Answer,
                 .what = "step 7",
                 .whom = {"ps:0", "h:2222"},
                 .seconds = 6.25},
                {.kind = internal::WaitKind::Tensor, .what = "call 3", .whom = {}, .seconds = 5}}};
}
MachinePlace sample_place() {
  return {.task = 1, .value = {.doing = "sleeps", .input_seconds = 2.5, .frames = {"f", "main"}}};
}

TEST(MachineMessages, ArriveAsTheyWereSent) {
  const TaskStart start = decode<MachineStart>(encode(MachineStart{sample_start()})).start;
  EXPECT_EQ(start.command, sample_start().command);
  EXPECT_EQ(start.environment, sample_start().environment);
  EXPECT_EQ(start.memory_limit_bytes, sample_start().memory_limit_bytes);
  const auto ending = decode<MachineEnding>(encode(sample_ending()));
  EXPECT_EQ(ending.task, 2U);
  EXPECT_EQ(ending.value.status, 11);
  EXPECT_EQ(ending.value.seconds, 1.5);
  EXPECT_EQ(ending.value.crash.code, -6);
  EXPECT_EQ(ending.value.crash.frames, sample_ending().value.crash.frames);
  EXPECT_EQ(ending.value.last_lines, sample_ending().value.last_lines);
  EXPECT_EQ(decode<MachineHold>(encode(MachineHold{3})).ports, 3);
  EXPECT_EQ(decode<MachineHeld>(encode(MachineHeld{{1, 65535}})).ports,
            (std::vector<int>{1, 65535}));
  EXPECT_EQ(decode<MachineLine>(encode(MachineLine{1, Stream::Errors, "\xff\n"})).text, "\xff\n");
  EXPECT_EQ(decode<MachineSignal>(encode(MachineSignal{4, 15})).signal, 15);
  EXPECT_EQ(decode<MachineInterrupted>(encode(MachineInterrupted{15})).signal, 15);
  EXPECT_EQ(decode<MachineWhere>(encode(MachineWhere{9})).task, 9U);
  EXPECT_EQ(decode<MachineClock>(encode(MachineClock{std::chrono::nanoseconds(1)})).time.count(),
            1);
  const auto decoded = decode<MachineWaits>(encode(sample_waits()));
  EXPECT_EQ(decoded.task, 5U);
  ASSERT_EQ(decoded.value.size(), 2U);
  EXPECT_EQ(decoded.value[0].kind, internal::WaitKind::Answer);
  EXPECT_EQ(decoded.value[0].whom, sample_waits().value[0].whom);
  EXPECT_EQ(decoded.value[0].seconds, 6.25);
  EXPECT_EQ(decoded.value[1].what, "call 3");
  const auto place = decode<MachinePlace>(encode(sample_place()));
  EXPECT_EQ(place.value.doing, "sleeps");
  EXPECT_EQ(place.value.input_seconds, 2.5);
  EXPECT_EQ(place.value.frames, sample_place().value.frames);
  const auto progress = decode<MachineProgress>(
      encode(MachineProgress{.task = 4, .value = {.text = "epoch 1/2", .quiet = true}}));
  EXPECT_EQ(progress.task, 4U);
  EXPECT_EQ(progress.value, (internal::ProgressNote{.text = "epoch 1/2", .quiet = true}));
  EXPECT_EQ(decode<MachineOffer>(encode(MachineOffer{"a", "10.0.0.1"})).address, "10.0.0.1");
}

TEST(MachineMessages, OfTooManyPortsOrOfAnotherKindAreRefused) {
  EXPECT_ERROR(Code::DataLoss, "4097 is more than the 4096 allowed here",
               decode<MachineHold>(encode(MachineHold{kMaxPorts + 1})));
  EXPECT_ERROR(Code::DataLoss, "of another kind", decode<MachineHold>(encode(MachineWhere{1})));
}

// A message that is damaged at any byte, or cut anywhere, is read or refused.
TEST(MachineMessages, ThatAreDamagedAreRefusedAndNothingWorse) {
  std::mt19937 random(1);
  for (const internal::Message& good :
       {encode(MachineStart{sample_start()}), encode(sample_ending()), encode(sample_waits()),
        encode(sample_place())}) {
    for (int i = 0; i < 2000; ++i) {
      internal::Message bad = good;
      bad.header[random() % bad.header.size()] = static_cast<char>(random());
      if (i % 3 == 0) bad.header.resize(random() % bad.header.size());
      for (const Status& status : {capture_status([&] { (void)decode<MachineStart>(bad); }),
                                   capture_status([&] { (void)decode<MachineEnding>(bad); }),
                                   capture_status([&] { (void)decode<MachineWaits>(bad); }),
                                   capture_status([&] { (void)decode<MachinePlace>(bad); }),
                                   capture_status([&] { (void)decode<MachineProgress>(bad); }),
                                   capture_status([&] { (void)kind_of(bad); })}) {
        EXPECT_TRUE(status.ok() || status.code == Code::DataLoss) << status;
      }
    }
  }
}

}  // namespace
}  // namespace cohort::cli
