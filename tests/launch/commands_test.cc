// The commands beside `run`.

#include <gtest/gtest.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

Launched command(std::vector<std::string> words) {
  words.insert(words.begin(), COHORT_COMMAND);
  Process process(words);
  const int code = process.wait();
  return {code, process.output()};
}

TEST(Commands, HaveHelpWithAnExample) {
  for (const char* name :
       {"run", "join", "serve", "status", "doctor", "inspect", "credentials", "completion"}) {
    const Launched help = command({name, "--help"});
    EXPECT_EQ(help.code, 0) << help.output;
    EXPECT_TRUE(contains(help.output, std::string("  cohort ") + name)) << help.output;
    EXPECT_TRUE(contains(command({"--help"}).output, std::string("  cohort ") + name));
  }
}

TEST(Commands, ShowThatRunTakesAProgram) {
  const Launched help = command({"run", "--help"});
  EXPECT_TRUE(contains(help.output, "Usage: cohort run [OPTIONS] PROGRAM [ARGUMENTS]...\n"))
      << help.output;
}

TEST(Commands, SayWhatWasMeant) {
  const Launched name = command({"statsu"});
  EXPECT_EQ(name.code, 2);
  EXPECT_TRUE(contains(name.output, "did you mean 'status'?")) << name.output;
  const Launched option = command({"run", "--max-restart=3", "-n", "2", "/bin/true"});
  EXPECT_EQ(option.code, 2);
  EXPECT_TRUE(contains(option.output, "no option '--max-restart'")) << option.output;
  EXPECT_TRUE(contains(option.output, "did you mean '--max-restarts'?")) << option.output;
  for (const auto& [words, meant] :
       {std::pair{std::vector<std::string>{"rnu"}, "did you mean 'run'?"},
        std::pair{std::vector<std::string>{"--vesion"}, "did you mean '--version'?"},
        std::pair{std::vector<std::string>{"credentials", "--hlep"}, "did you mean '--help'?"}}) {
    const Launched misspelt = command(words);
    EXPECT_EQ(misspelt.code, 2);
    EXPECT_TRUE(contains(misspelt.output, meant)) << misspelt.output;
  }
  const Launched none = command({"status", "--zzz"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(contains(none.output, "no option '--zzz'; see cohort status --help")) << none.output;
}

TEST(Completion, KnowsCommandsAndOptions) {
  for (const char* shell : {"bash", "zsh"}) {
    const Launched script = command({"completion", shell});
    EXPECT_TRUE(contains(script.output, "run join serve status")) << script.output;
    EXPECT_TRUE(contains(script.output, "--max-restarts")) << script.output;
  }
  EXPECT_TRUE(contains(command({"completion", "fish"}).output, "-l max-restarts"));
  EXPECT_NE(command({"completion", "tcsh"}).code, 0);
}

// bash itself completes "cohort st" and "cohort run --max".
TEST(Completion, WorksInBash) {
  const LaunchDirectory directory;
  const std::string script = directory.path() + "/completion";
  std::ofstream(script) << command({"completion", "bash"}).output;
  const auto completed = [&](const std::string& words, int at) {
    Process bash({"/bin/bash", "-c",
                  "source " + script + "; COMP_WORDS=(" + words +
                      "); COMP_CWORD=" + std::to_string(at) + "; _cohort; echo ${COMPREPLY[@]}"});
    EXPECT_EQ(bash.wait(), 0) << bash.output();
    return bash.output();
  };
  EXPECT_EQ(completed("cohort st", 1), "status\n");
  EXPECT_EQ(completed("cohort run --max", 2), "--max-restarts\n");
}

TEST(Serve, ServesATaskUntilItIsStoppedAndAnswersStatus) {
  const LaunchDirectory directory;
  Process server(
      {COHORT_COMMAND, "serve", "--job", "ps", "--task", "0", "--cluster", "ps=127.0.0.1:0"});
  ASSERT_TRUE(eventually([&] { return contains(server.output(), "\n"); })) << server.output();
  const std::string output = server.output();
  ASSERT_TRUE(output.starts_with("serving /job:ps/task:0 at grpc://127.0.0.1:")) << output;
  std::string address = output.substr(output.find("grpc://") + 7);
  address.resize(address.find('\n'));
  const Launched status = command({"status", address});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_TRUE(contains(status.output, "steps/s")) << status.output;
  server.send(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.output();
  EXPECT_EQ(command({"status", address}).code, 1);
}

TEST(Status, FindsTheRunThatGoesOn) {
  const LaunchDirectory directory;
  const std::string none = command({"status"}).output;
  EXPECT_TRUE(contains(none, "no tasks to ask: '" + directory.path() + "/cohort-")) << none;
  EXPECT_TRUE(contains(none, "set TMPDIR as the run has it")) << none;
  Process run(run_words({"--workers", "1", "--ps", "1", TRAIN_TASK}));
  // The worker waits for a second one that never comes.
  std::string output;
  EXPECT_TRUE(eventually([&] {
    output = command({"status"}).output;
    return contains(output, "127.0.0.1");
  })) << output;
  EXPECT_TRUE(contains(output, "tasks of the run of process")) << output;
  EXPECT_TRUE(contains(output, "ps:0")) << output;
}

TEST(Status, FindsEveryRunThatGoesOn) {
  const LaunchDirectory directory;
  const auto run = [] { return Process(run_words({"--workers", "1", "--ps", "1", TRAIN_TASK})); };
  const Process first = run(), second = run();
  const auto named = [](const Process& launcher) {
    return "tasks of the run of process " + std::to_string(launcher.id());
  };
  std::string output;
  EXPECT_TRUE(test::eventually([&] {
    output = command({"status"}).output;
    return contains(output, named(first)) && contains(output, named(second));
  })) << output;
}

// A program that trains alone, or does something else, listens nowhere.
TEST(Status, IsGoodOfARunOfOneTaskThatDoesNotListen) {
  const LaunchDirectory directory;
  const Process run(run_words({"-n", "1", "/bin/sleep", "60"}));
  Launched status;
  EXPECT_TRUE(eventually([&] {
    status = command({"status"});
    return contains(status.output, "worker:0");
  })) << status.output;
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_TRUE(contains(status.output, "does not listen; the only task of a run need not"))
      << status.output;
}

TEST(Doctor, DialsEveryPairOfTasks) {
  const LaunchDirectory directory;
  const Launched run = launch({"-n", "3", COHORT_COMMAND, "doctor", "--timeout", "40"});
  EXPECT_EQ(run.code, 0) << run.output;
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      EXPECT_TRUE(contains(run.output, "[worker:" + std::to_string(from) +
                                           "] ok   connection   worker:" + std::to_string(to)))
          << from << " to " << to << " in " << run.output;
    }
  }
  EXPECT_TRUE(contains(run.output, "certificates they fit")) << run.output;
}

TEST(Doctor, NamesTheTaskThatDoesNotListenAndTheNameThatIsNone) {
  const Launched result = command(
      {"doctor", "--timeout", "1", "--cluster", "ps=127.0.0.1:1;worker=no-such-host.invalid:2222"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.output, "BAD  connection   ps:0 at 127.0.0.1:1")) << result.output;
  EXPECT_TRUE(contains(result.output, "'no-such-host.invalid' has no address")) << result.output;
}

TEST(Doctor, NamesTasksThatHaveOneAddress) {
  const Launched result =
      command({"doctor", "--timeout", "0", "--cluster", "ps=127.0.0.1:1;worker=h:2,127.0.0.1:1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.output, "ps:0 and worker:1 have the same address, 127.0.0.1:1"))
      << result.output;
}

TEST(Doctor, PrintsTheTfConfigThatWasMeant) {
  const ScopedEnvironment variables(ScopedEnvironment::Variables{
      {"TF_CONFIG", R"({"cluster":{"wroker":["h:1"]},"task":{"type":"worker","index":"0"}})"}});
  const Launched result = command({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(
      contains(result.output,
               R"(TF_CONFIG='{"cluster":{"worker":["h:1"]},"task":{"index":0,"type":"worker"}}')"))
      << result.output;
}

TEST(Doctor, NamesSimulatedGpus) {
  {
    const ScopedEnvironment variables(ScopedEnvironment::Variables{
        {"COHORT_SIMULATED_GPUS", "2"}, {"COHORT_SIMULATED_GPU_MEMORY", "512MB"}});
    const Launched result = command({"doctor"});
    EXPECT_TRUE(contains(result.output, "2 simulated, with 512MB each")) << result.output;
  }
  const ScopedEnvironment variables(
      ScopedEnvironment::Variables{{"COHORT_SIMULATED_GPUS", "many"}});
  const Launched result = command({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.output, "must be a number from 0 to 16, got 'many'"))
      << result.output;
}

TEST(Inspect, SaysWhatIsInAFile) {
  const LaunchDirectory directory;
  Process writer({TRAIN_TASK, directory.path()});
  ASSERT_EQ(writer.wait(), 0) << writer.output();
  const Launched checkpoint = command({"inspect", "--verify", directory.path() + "/ckpt-1"});
  EXPECT_TRUE(contains(checkpoint.output, "float32  (2, 3)")) << checkpoint.output;
  EXPECT_TRUE(contains(checkpoint.output, "all checksums are right")) << checkpoint.output;
  EXPECT_EQ(command({"inspect", directory.path()}).output.find("checkpoint "), 0U);
  const Launched graph = command({"inspect", directory.path() + "/graph"});
  EXPECT_TRUE(contains(graph.output, "Placeholder")) << graph.output;
  EXPECT_TRUE(
      contains(command({"inspect", "--dot", directory.path() + "/graph"}).output, "digraph"));
  const Launched records = command({"inspect", directory.path() + "/records"});
  EXPECT_TRUE(contains(records.output, "2 records")) << records.output;
  const Launched events = command({"inspect", "--kind", "events", directory.path() + "/events"});
  EXPECT_TRUE(contains(events.output, "1 values of 1 tags")) << events.output;
  EXPECT_TRUE(contains(events.output, "loss")) << events.output;
  const Launched missing = command({"inspect", directory.path() + "/nothing"});
  EXPECT_EQ(missing.code, 1);
}

TEST(Inspect, RecognisesGzippedRecordsAndSaysWhatItDoesNotKnow) {
  const LaunchDirectory directory;
  Process writer({TRAIN_TASK, directory.path()});
  ASSERT_EQ(writer.wait(), 0) << writer.output();
  ASSERT_EQ(Process({"/bin/gzip", directory.path() + "/records"}).wait(), 0);
  const Launched records = command({"inspect", directory.path() + "/records.gz"});
  EXPECT_EQ(records.code, 0) << records.output;
  EXPECT_TRUE(contains(records.output, "2 records")) << records.output;
  std::ofstream(directory.path() + "/text") << "It was a dark and stormy night.\n";
  const Launched text = command({"inspect", directory.path() + "/text"});
  EXPECT_EQ(text.code, 1);
  EXPECT_TRUE(contains(text.output, "/text' has an unknown format")) << text.output;
  std::ofstream(directory.path() + "/empty").close();
  EXPECT_TRUE(contains(command({"inspect", directory.path() + "/empty"}).output, "unknown format"));
}

// A shard may have no records.
TEST(Inspect, KnowsEmptyRecordFilesByTheirNames) {
  const LaunchDirectory directory;
  for (const char* name : {"/a.tfrecord", "/b.tfrecords", "/c.tfrecord"}) {
    std::ofstream(directory.path() + name).close();
  }
  ASSERT_EQ(Process({"/bin/gzip", directory.path() + "/c.tfrecord"}).wait(), 0);
  for (const char* name : {"/a.tfrecord", "/b.tfrecords", "/c.tfrecord.gz"}) {
    const Launched records = command({"inspect", directory.path() + name});
    EXPECT_EQ(records.code, 0) << records.output;
    EXPECT_TRUE(contains(records.output, "0 records")) << records.output;
  }
  std::ofstream(directory.path() + "/text.tfrecord") << "It was a dark and stormy night.\n";
  const Launched text = command({"inspect", directory.path() + "/text.tfrecord"});
  EXPECT_TRUE(contains(text.output, "unknown format")) << text.output;
}

// Of a training that was killed, the end is missing; what comes before is of interest.
TEST(Inspect, ShowsWhatComesBeforeTheDamage) {
  const LaunchDirectory directory;
  Process writer({TRAIN_TASK, directory.path()});
  ASSERT_EQ(writer.wait(), 0) << writer.output();
  std::filesystem::resize_file(directory.path() + "/records",
                               std::filesystem::file_size(directory.path() + "/records") - 3);
  const Launched records = command({"inspect", directory.path() + "/records"});
  EXPECT_EQ(records.code, 1);
  EXPECT_TRUE(contains(records.output, "1 records")) << records.output;
  EXPECT_TRUE(contains(records.output, "record 1")) << records.output;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.path().extension() == ".safetensors") std::filesystem::remove(entry.path());
  }
  const Launched checkpoint = command({"inspect", directory.path() + "/ckpt-1"});
  EXPECT_TRUE(contains(checkpoint.output, "is not on this machine")) << checkpoint.output;
  const std::string board = directory.path() + "/board";
  std::filesystem::create_directory(board);
  std::filesystem::rename(directory.path() + "/events", board + "/events.out.tfevents.1.h");
  EXPECT_EQ(command({"inspect", board}).code, 0);
  std::ofstream(board + "/events.out.tfevents.1.h", std::ios::app) << "torn";
  const Launched events = command({"inspect", board});
  EXPECT_EQ(events.code, 1);
  EXPECT_TRUE(contains(events.output, "1 values of 1 tags")) << events.output;
  EXPECT_TRUE(contains(events.output, "events.out.tfevents.1.h")) << events.output;
}

}  // namespace
}  // namespace cohort::test
