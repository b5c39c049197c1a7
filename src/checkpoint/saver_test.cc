#include <fstream>

#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/durable_file.h"
#include "support/saver_fixture.h"

namespace cohort {
namespace {

TEST_F(SaverTest, SavesAndRestoresTheGraphsVariables) {
  Graph graph;
  const auto building = graph.as_default();
  Variable w({{1.f, 2.f}}, {.name = "w"});
  Variable n(int64_t{5}, {.name = "n", .trainable = false});
  Variable s(Tensor("text"), {.name = "s"});
  const Tensor change = group({w.assign_add(Tensor({{1.f, 1.f}})), n.assign_add(int64_t{1})});
  Saver saver;
  Session session;
  session.run(global_variables_initializer());
  EXPECT_EQ(saver.save(session, path("model"), {.global_step = 7}), path("model-7"));
  session.run(change);
  EXPECT_EQ(session.run(w).to_vector<float>(), (Floats{2, 3}));
  saver.restore(session, path("model-7"));
  EXPECT_EQ(session.run(w).to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(session.run(n).to<int64_t>(), 5);
  EXPECT_EQ(session.run(s).to<std::string>(), "text");
  EXPECT_EQ(CheckpointReader(path("model-7")).step(), 7);
  EXPECT_EQ(latest_checkpoint(directory()), path("model-7"));
}

TEST_F(SaverTest, RestoresWithoutInitialisationIntoAFinishedGraph) {
  {
    Graph graph;
    const auto building = graph.as_default();
    const Variable w(3.f, {.name = "w"});
    Saver saver;
    Session session;
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(0.f, {.name = "w"});
  Saver saver;
  graph.finalize();
  Session session;
  saver.restore(session, path("model"));
  EXPECT_EQ(session.run(graph.tensor("save/ReadVariable")).to<float>(), 3);
}

TEST_F(SaverTest, SavesChosenVariablesUnderChosenNames) {
  Graph graph;
  const auto building = graph.as_default();
  Variable a(1.f, {.name = "a"});
  Variable b(2.f, {.name = "b"});
  Saver only_a({a});
  Saver renamed(std::map<std::string, Variable>{{"old/a", b}});
  Session session;
  session.run(global_variables_initializer());
  only_a.save(session, path("only"));
  EXPECT_FALSE(CheckpointReader(path("only")).contains("b"));
  renamed.save(session, path("renamed"));
  EXPECT_EQ(CheckpointReader(path("renamed")).read("old/a").to<float>(), 2);
  EXPECT_ERROR(Code::NotFound, "no tensor 'old/a'; it has 'a'",
               renamed.restore(session, path("only")));
}

TEST_F(SaverTest, AssignsNothingWhenOneDoesNotFit) {
  {
    Graph graph;
    const auto building = graph.as_default();
    const Variable a(9.f, {.name = "a"});
    const Variable b({1.f, 2.f}, {.name = "b"});
    Saver saver;
    Session session;
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  Graph graph;
  const auto building = graph.as_default();
  Variable a(1.f, {.name = "a"});
  Variable b({1.f, 2.f, 3.f}, {.name = "b"});
  Saver saver;
  Session session;
  session.run(global_variables_initializer());
  EXPECT_ERROR(Code::InvalidArgument,
               "tensor 'b' as float32 (2,), but variable 'b' wants float32 (3,)",
               saver.restore(session, path("model")));
  EXPECT_EQ(session.run(a).to<float>(), 1);
}

TEST_F(SaverTest, NamesTheVariableWithoutAValue) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  Saver saver;
  Session session;
  EXPECT_ERROR(Code::FailedPrecondition, "'w'", saver.save(session, path("model")));
  EXPECT_EQ(latest_checkpoint(directory()), std::nullopt);
}

TEST_F(SaverTest, RefusesWhatItCannotSave) {
  const Variable eager(1.f, {.name = "eager"});
  EXPECT_ERROR(Code::InvalidArgument, "'eager' does not belong to a graph", Saver({eager}));
  Graph graph;
  const auto building = graph.as_default();
  EXPECT_ERROR(Code::InvalidArgument, "no variables", Saver());
  const Variable w(1.f, {.name = "w"});
  const Variable v(1.f, {.name = "v"});
  EXPECT_ERROR(Code::InvalidArgument, "max_to_keep", Saver({.max_to_keep = -2}));
  EXPECT_ERROR(Code::InvalidArgument, "2 variables have the name 'x'",
               Saver(SaverVariables(), {{"x", w, {2}, {0}}, {"x", v, {2}, {1}}}));
}

TEST_F(SaverTest, RefusesPrefixesThatAreTheStateFile) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  Saver saver;
  Session session;
  session.run(global_variables_initializer());
  EXPECT_ERROR(Code::InvalidArgument, "is the state file itself",
               saver.save(session, path("checkpoint")));
  EXPECT_ERROR(Code::InvalidArgument, "is the state file itself",
               saver.save(session, path("mine"), {.state_file = "mine"}));
  EXPECT_ERROR(Code::InvalidArgument, "without a directory",
               saver.save(session, path("model"), {.state_file = "a/b"}));
  EXPECT_ERROR(Code::InvalidArgument, "the prefix ''", saver.save(session, ""));
  EXPECT_ERROR(Code::InvalidArgument, "must be a directory and",
               saver.save(session, directory() + "/"));
  EXPECT_EQ(saver.save(session, path("checkpoint"), {.global_step = 1}), path("checkpoint-1"));
  EXPECT_EQ(latest_checkpoint(directory()), path("checkpoint-1"));
}

TEST_F(SaverTest, KeepsTheLastFewAndGoesOnAfterARestart) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  Session session;
  {
    Saver saver({.max_to_keep = 2});
    session.run(global_variables_initializer());
    for (const int64_t step : {1, 2, 3}) {
      saver.save(session, path("model"), {.global_step = step});
    }
    EXPECT_EQ(saver.last_checkpoints(), (Names{path("model-2"), path("model-3")}));
    EXPECT_FALSE(checkpoint_exists(path("model-1")));
    EXPECT_EQ(count_ending(directory(), ".safetensors"), 2u);
  }
  Saver another({.max_to_keep = 2});
  another.save(session, path("other"));
  EXPECT_TRUE(checkpoint_exists(path("model-2"))) << "it deletes nothing that it does not know";

  Saver first({.max_to_keep = 2});
  first.save(session, path("model"), {.global_step = 2});
  first.save(session, path("model"), {.global_step = 3});
  Saver restarted({.max_to_keep = 2});
  restarted.restore(session, path("model-3"));
  EXPECT_EQ(restarted.last_checkpoints(), (Names{path("model-2"), path("model-3")}));
  restarted.save(session, path("model"), {.global_step = 4});
  EXPECT_FALSE(checkpoint_exists(path("model-2")));
  EXPECT_EQ(latest_checkpoint(directory()), path("model-4"));
}

TEST_F(SaverTest, WritesNoListWhenAskedNotTo) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  Saver saver;
  Session session;
  session.run(global_variables_initializer());
  saver.save(session, path("model"), {.write_state = false});
  EXPECT_EQ(get_checkpoint_state(directory()), std::nullopt);
  saver.save(session, path("model"), {.state_file = "mine"});
  EXPECT_EQ(get_checkpoint_state(directory(), "mine")->latest, path("model"));
}

TEST_F(SaverTest, TakesTheValuesOfTheMomentWhenAsynchronous) {
  Graph graph;
  const auto building = graph.as_default();
  Variable w(zeros({1 << 20}), {.name = "w"});
  const Tensor add = w.assign_add(Tensor(1.f));
  Saver saver({.asynchronous = true});
  Session session;
  session.run(global_variables_initializer());
  for (int64_t step = 0; step < 5; ++step) {
    saver.save(session, path("model"), {.global_step = step});
    session.run(add);
  }
  saver.wait();
  const SaveProgress progress = saver.progress();
  EXPECT_FALSE(progress.writing);
  EXPECT_EQ(progress.prefix, path("model-4"));
  EXPECT_EQ(progress.bytes_written, 4 << 20);
  EXPECT_EQ(progress.bytes_total, 4 << 20);
  for (int64_t step = 0; step < 5; ++step) {
    const CheckpointReader reader(path("model-" + std::to_string(step)));
    const Tensor saved = reader.read("w");
    EXPECT_EQ(saved.at<float>({0}), static_cast<float>(step));
    EXPECT_EQ(saved.at<float>({-1}), static_cast<float>(step));
  }
}

TEST_F(SaverTest, ReportsWhatAnAsynchronousSaveMetAtTheNextCall) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  Saver saver({.asynchronous = true});
  Session session;
  session.run(global_variables_initializer());
  std::ofstream(path("file")) << "in the way";
  saver.save(session, path("file/model"));
  EXPECT_ERROR(Code::FailedPrecondition, "file", saver.save(session, path("model")));
  EXPECT_FALSE(checkpoint_exists(path("model"))) << "nothing was saved then";
  saver.save(session, path("model"));
  saver.wait();
  EXPECT_TRUE(checkpoint_exists(path("model")));
  saver.save(session, path("file/model"));
  EXPECT_ERROR(Code::FailedPrecondition, "file", saver.wait());
  saver.wait();  // told once
}

TEST_F(SaverTest, WaitsForItsSavesAtItsEnd) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(zeros({1 << 20}), {.name = "w"});
  {
    Session session;
    Saver saver({.asynchronous = true});
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  EXPECT_EQ(latest_checkpoint(directory()), path("model"));
}

// A tensor in parts of those sizes along its first dimension.
std::vector<SavedPart> cut(const std::vector<int64_t>& sizes, int64_t rows, float first) {
  std::vector<SavedPart> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    std::vector<float> values;
    for (int64_t i = 0; i < size * 2; ++i) {
      values.push_back(first + static_cast<float>(begin * 2 + i));
    }
    const Variable variable(Tensor::from(values, {size, 2}), {.name = "part"});
    parts.push_back({"table", variable, {rows, 2}, {begin, 0}});
    begin += size;
  }
  return parts;
}

TEST_F(SaverTest, RestoresPartsFromAnyOtherCut) {
  {
    Graph graph;
    const auto building = graph.as_default();
    Saver saver(SaverVariables(), cut({3, 2}, 5, 0));
    Session session;
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  const CheckpointReader reader(path("model"));
  EXPECT_EQ(reader.read("table").to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{2, 2, 1}, {5}, {1, 1, 1, 1, 1}, {3, 2}, {4, 1}}) {
    Graph graph;
    const auto building = graph.as_default();
    const std::vector<SavedPart> parts = cut(sizes, 5, 100);
    Saver saver(SaverVariables(), parts);
    Session session;
    saver.restore(session, path("model"));
    Floats all;
    for (const SavedPart& part : parts) {
      for (const float value : session.run(part.variable).to_vector<float>()) all.push_back(value);
    }
    EXPECT_EQ(all, (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  Graph graph;
  const auto building = graph.as_default();
  Variable whole(zeros({5, 2}), {.name = "table"});
  Saver saver;
  Session session;
  saver.restore(session, path("model"));
  EXPECT_EQ(session.run(whole).at<float>({4, 1}), 9);
}

// Ten numbers in rows of two, in a table of shards with so many rows each.
ShardedVariable table_of(const std::vector<int64_t>& sizes, float first) {
  std::vector<Variable> shards;
  for (const SavedPart& part : cut(sizes, 5, first)) shards.push_back(part.variable);
  return ShardedVariable(shards, "table");
}

TEST_F(SaverTest, ATableInShardsIsOneTensor) {
  {
    Graph graph;
    const auto building = graph.as_default();
    const ShardedVariable table = table_of({3, 2}, 0);
    Saver saver;  // of the shards, as the graph's variables
    Session session;
    session.run(global_variables_initializer());
    saver.save(session, path("model"));
  }
  EXPECT_EQ(CheckpointReader(path("model")).tensors().size(), 1u);
  Graph graph;
  const auto building = graph.as_default();
  const ShardedVariable table = table_of({2, 2, 1}, 100);
  Saver saver({table}, {.max_to_keep = 2});
  Session session;
  saver.restore(session, path("model"));
  EXPECT_EQ(session.run(table.read_value()).to_vector<float>(),
            (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace cohort
