// Variables of session graphs, and what optimizers and metrics keep in them.

#include "cohort/graph_variable.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "graph/graph_impl.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

constexpr char kPs[] = "/job:ps/task:0";

std::vector<std::string> names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& variable : variables) names.push_back(variable.name());
  return names;
}

TEST(GraphVariable, WaitsForNothingThatIsOpenWhereItIsMade) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, {}, "fed");
  std::optional<Variable> v;
  {
    const auto after = control_dependencies({fed * 2.f});
    v.emplace(1.f, VariableOptions{.name = "v"});
  }
  Session session;
  EXPECT_EQ(session.run(report_uninitialized_variables()).to_vector<std::string>(),
            std::vector<std::string>{"v"});
  session.run(global_variables_initializer());
  EXPECT_EQ(session.run(*v).to<float>(), 1.f);
}

TEST(GraphVariable, OfAFedLearningRateNeedsNoFeedItself) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor rate = placeholder(kFloat32, {}, "rate");
  Variable w(1.f, {.name = "w"});
  optim::Sgd sgd(
      {.learning_rate = optim::LearningRate([&](const Tensor&) { return rate; }), .momentum = 0.9});
  const Tensor train = sgd.minimize(square(w), {w});
  Session session;
  session.run(global_variables_initializer());
  session.run(train, {{rate, Tensor(0.25f)}});
  EXPECT_EQ(session.run(w).to<float>(), 0.5f);
  EXPECT_EQ(session.run(sgd.slot(w, "momentum")).to<float>(), 2.f);
  const TemporaryDirectory directory;
  Saver().save(session, directory.path() + "/model");
}

TEST(GraphVariable, IsReportedBeforeTheRateCanBeComputed) {
  Graph graph;
  const auto building = graph.as_default();
  Variable w(1.f, {.name = "w"});
  optim::Adam adam({.learning_rate = optim::exponential_decay({})});
  adam.minimize(square(w), {w});
  Session session;
  EXPECT_EQ(session.run(report_uninitialized_variables()).size(), 4);
}

TEST(GraphVariable, QueuesAndAccumulatorsWaitForNothingEither) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, {}, "fed");
  auto after = control_dependencies({fed * 2.f});
  FifoQueue queue({.components = {{kFloat32, Shape{}}}});
  ConditionalAccumulator sum({.dtype = kFloat32, .shape = Shape{}});
  after.close();
  Session session;
  EXPECT_EQ(session.run(queue.size()).to<int64_t>(), 0);
  EXPECT_EQ(session.run(sum.num_accumulated()).to<int64_t>(), 0);
}

struct Counts {
  Variable iterations;
  Variable step;
};

// Asks for both counts by `ask` before the first variable is made, on the ps.
Counts ask_first(const std::function<void(optim::Optimizer&)>& ask) {
  optim::Adam adam({.learning_rate = optim::exponential_decay({})});
  ask(adam);
  {
    const auto on = device(kPs);
    const Variable w(1.f, {.name = "w"});
  }
  return {adam.iterations(), global_step()};
}

TEST(Counts, AskedForBeforeTheFirstVariableGoWhereItGoes) {
  const std::vector<std::function<void(optim::Optimizer&)>> asks = {
      [](optim::Optimizer& optimizer) { optimizer.iterations(); },
      [](optim::Optimizer& optimizer) { optimizer.learning_rate(); },
      [](optim::Optimizer&) { global_step(); },
      [](optim::Optimizer& optimizer) {
        global_step();
        optimizer.variables();
      },
  };
  for (size_t i = 0; i < asks.size(); ++i) {
    Graph graph;
    const auto building = graph.as_default();
    const Counts counts = ask_first(asks[i]);
    EXPECT_EQ(counts.iterations.device(), kPs) << "case " << i;
    EXPECT_EQ(counts.step.device(), kPs) << "case " << i;
  }
}

TEST(Counts, ScopesWithoutAJobLeaveTheTaskToTheFirstVariable) {
  Graph graph;
  const auto building = graph.as_default();
  const auto on = device("/cpu:0");
  const Variable early = global_step();
  EXPECT_EQ(early.device(), "/device:CPU:0");
  {
    const auto there = device(kPs);
    const Variable w(1.f, {.name = "w"});
  }
  EXPECT_EQ(early.device(), "/job:ps/task:0/device:CPU:0");
  Graph read = Graph::deserialize(graph.serialize());
  const auto building_copy = read.as_default();
  EXPECT_EQ(find_global_step()->device(), "/job:ps/task:0/device:CPU:0");
}

TEST(Counts, ScopesWithAJobSayWhereTheStepGoes) {
  Graph graph;
  const auto building = graph.as_default();
  {
    const auto on = device("/job:ps/task:1");
    global_step();
  }
  const auto on = device(kPs);
  const Variable w(1.f, {.name = "w"});
  EXPECT_EQ(global_step().device(), "/job:ps/task:1");
}

TEST(Counts, RunWithoutAnyVariable) {
  Graph graph;
  const auto building = graph.as_default();
  const optim::Sgd sgd;
  const Tensor bump = global_step().assign_add(int64_t{1});
  Session session;
  session.run({sgd.iterations(), global_variables_initializer()});
  EXPECT_EQ(session.run(bump).to<int64_t>(), 1);
}

TEST(MetricsInGraphs, AreLocalToTheWorker) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  const metrics::Mean mean("loss");
  EXPECT_EQ(names_of(global_variables()), std::vector<std::string>{"w"});
  EXPECT_EQ(names_of(local_variables()), (std::vector<std::string>{"loss/total", "loss/count"}));
  Session session;
  session.run(local_variables_initializer());
  EXPECT_EQ(session.run(mean.result()).to<double>(), 0);
}

TEST(MetricsInGraphs, GiveOneNodeToAllWhoAskForTheResult) {
  Graph graph;
  const auto building = graph.as_default();
  const metrics::Mean mean, other;
  const metrics::Auc auc;
  Session session;
  session.run(local_variables_initializer());
  const Tensor result = mean.result();
  graph.finalize();
  EXPECT_EQ(mean.result().name(), result.name());
  EXPECT_NE(other.result().name(), result.name());
  EXPECT_EQ(session.run(auc.result()).to<double>(), 0);
  EXPECT_EQ(auc.result().name(), auc.result().name());
}

TEST(MetricsInGraphs, HaveAResultOfTheirOwnAfterControlDependencies) {
  Graph graph;
  const auto building = graph.as_default();
  const metrics::Mean mean;
  const Tensor result = mean.result();
  const auto after = control_dependencies({constant(1.f)});
  EXPECT_NE(mean.result().name(), result.name());
}

// One worker's program; nothing but the model is inside a device scope that names the ps.
void train_as(test::LocalCluster& cluster, int index) {
  Graph graph;
  const auto building = graph.as_default();
  const std::string self = "/job:worker/task:" + std::to_string(index);
  optim::Adam adam({.learning_rate = optim::exponential_decay({.initial_rate = 0.1})});
  adam.learning_rate();
  std::optional<Variable> step, w;
  {
    const auto on = device("/cpu:0");
    step.emplace(global_step());
  }
  const DeviceFunction setter = replica_device_setter(cluster.spec(), {.worker_device = self});
  {
    const auto on = device(setter);
    w.emplace(1.f, VariableOptions{.name = "w"});
  }
  const auto on = device(self);
  const Tensor mean = metrics::Mean("loss").result();
  const Tensor train = adam.minimize(square(*w), {*w}, *step);
  MonitoredTrainingSession session({.master = cluster.target("worker", index),
                                    .is_chief = index == 0,
                                    .max_wait = std::chrono::seconds(20)});
  session.manage([&] {
    for (int i = 0; i < 3; ++i) session.run(train);
    EXPECT_EQ(session.raw_session().run(mean).to<double>(), 0);
  });
}

TEST(Counts, AskedForFirstAreSharedByTheWorkers) {
  test::LocalCluster cluster(1, 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const Status status = capture_status([&] { train_as(cluster, i); });
      EXPECT_TRUE(status.ok()) << "worker " << i << ": " << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One thread holds a lock of the user and waits, while another thread is in the user's code and
// wants that lock.
bool goes_on_while(const std::function<void(std::mutex&, std::promise<void>&)>& in_user_code,
                   const std::function<void()>& act) {
  std::mutex users;
  std::promise<void> entered;
  std::unique_lock held(users);
  std::thread other([&] { in_user_code(users, entered); });
  entered.get_future().wait();
  std::future<void> acts = std::async(std::launch::async, act);
  const bool done = acts.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  held.unlock();
  other.join();
  acts.get();
  return done;
}

TEST(GraphLock, IsNotHeldWhileAScheduleIsAsked) {
  Graph graph;
  const auto add = [&] {
    const auto building = graph.as_default();
    constant(1.f);
  };
  const auto ask = [&](std::mutex& users, std::promise<void>& entered) {
    const auto building = graph.as_default();
    optim::Sgd sgd({.learning_rate = optim::LearningRate([&](const Tensor& step) {
                      entered.set_value();
                      const std::lock_guard lock(users);
                      return cast(step, kFloat32) * 0.1f;
                    })});
    sgd.learning_rate();
  };
  EXPECT_TRUE(goes_on_while(ask, add));
}

TEST(GraphLock, IsNotHeldWhileADeviceFunctionIsAsked) {
  Graph graph;
  const auto add = [&] {
    const auto building = graph.as_default();
    constant(1.f);
  };
  const auto place = [&](std::mutex& users, std::promise<void>& entered) {
    const auto building = graph.as_default();
    const auto on = device([&](const DeviceRequest& request) {
      entered.set_value();
      const std::lock_guard lock(users);
      return request.device;
    });
    constant(2.f);
  };
  EXPECT_TRUE(goes_on_while(place, add));
}

TEST(GraphLock, AQuestionOfAFinalizedGraphLetsNobodyElseAddNodes) {
  Graph graph;
  const auto building = graph.as_default();
  Tensor added;
  Status refused;
  optim::Sgd sgd({.learning_rate = optim::LearningRate([&](const Tensor& step) {
                    std::thread([&] {
                      const auto there = graph.as_default();
                      refused = capture_status([] { constant(1.f); });
                    }).join();
                    return cast(step, kFloat32) * 0.1f;
                  })});
  sgd.iterations();
  graph.finalize();
  const Tensor rate = sgd.learning_rate();
  EXPECT_EQ(refused.code, Code::FailedPrecondition);
  EXPECT_EQ(sgd.learning_rate().name(), rate.name());
}

// The files that made the nodes of the graph from `first` on, as far as they are known.
std::set<std::string> makers(const Graph& graph, int first) {
  const auto& impl = internal::GraphAccess::impl(graph);
  std::set<std::string> files;
  for (int id = first; id < impl->size(); ++id) {
    const Site site = impl->node(id).site;
    if (site.line > 0) files.insert(std::filesystem::path(site.file).filename());
  }
  return files;
}

const std::set<std::string> kThisFile{"graph_variable_test.cc"};

TEST(Places, OfAWriteAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(zeros({2, 2}));
  const std::function<void()> writes[] = {
      [&] {
        v.assign(ones({2, 2}));
      },
      [&] { v.assign_add(1.f); },
      [&] {
        v.scatter_update({ones({1, 2}), Tensor({int64_t{0}}), {2, 2}});
      },
      [&] { v[0]; }};
  for (const auto& write : writes) {
    const int first = internal::GraphAccess::impl(graph)->size();
    write();
    EXPECT_EQ(makers(graph, first), kThisFile);
    const int last = internal::GraphAccess::impl(graph)->size() - 1;
    EXPECT_GT(internal::GraphAccess::impl(graph)->node(last).site.line, 0);
  }
}

// The lines of the nodes that `call` adds to the graph; 0 stands for a node without a line.
std::set<int> lines_of(const Graph& graph, const std::function<void()>& call) {
  const auto& impl = internal::GraphAccess::impl(graph);
  const int first = impl->size();
  call();
  std::set<int> lines;
  for (int id = first; id < impl->size(); ++id) lines.insert(impl->node(id).site.line);
  return lines;
}

TEST(Places, OfAWriteOfAnotherVariableAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(1.f);
  const Variable other(2.f);
  const int line = __LINE__ + 1;
  EXPECT_EQ(lines_of(graph, [&] { v.assign(other); }), std::set<int>{line});
  EXPECT_EQ(lines_of(graph, [&] { v.assign_add(other); }), std::set<int>{line + 1});
  EXPECT_EQ(lines_of(graph, [&] { v.assign_sub(other); }), std::set<int>{line + 2});
}

TEST(Places, OfAnIndexAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable v({1.f, 2.f});
  const Tensor x = placeholder(kFloat32, {2});
  const int line = __LINE__ + 1;
  EXPECT_EQ(lines_of(graph, [&] { v[0]; }), std::set<int>{line});
  EXPECT_EQ(lines_of(graph, [&] { x[0]; }), std::set<int>{line + 1});
}

// A value is fed whose shape is not known while the graph is built.
TEST(Places, OfAWriteAndOfAnIndexAreInTheirErrors) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, Shape::unknown());
  Variable v({1.f, 2.f});
  const int line = __LINE__ + 1;
  const Tensor all[] = {v.assign(fed), v.assign_add(fed), v.assign_sub(fed), fed[3]};
  Session session;
  session.run(global_variables_initializer());
  for (const Tensor& made : all) {
    EXPECT_ERROR(Code::InvalidArgument, "graph_variable_test.cc:" + std::to_string(line),
                 session.run(made, {{fed, Tensor({1.f, 1.f, 1.f})}}));
  }
}

// Checks that all nodes that `call` adds are made on one line of this file.
void expect_one_line_here(const Graph& graph, const std::function<void()>& call) {
  const int first = static_cast<int>(graph.size());
  const std::set<int> lines = lines_of(graph, call);
  EXPECT_EQ(makers(graph, first), kThisFile);
  EXPECT_EQ(lines.size(), 1);
  EXPECT_FALSE(lines.contains(0));
}

TEST(Places, OfAReadAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable v(1.f);
  const ShardedVariable table({Variable(zeros({2, 2})), Variable(zeros({2, 2}))});
  expect_one_line_here(graph, [&] { v.read_value(); });
  expect_one_line_here(graph, [&] { v.value(); });
  expect_one_line_here(graph, [&] { table.read_value(); });
}

TEST(Places, OfANewVariableAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Initializer one = [] { return Tensor(1.f); };
  const Shape small{2, 2};
  const GetVariableOptions glorot{.shape = small};
  const GetVariableOptions counted{.shape = {}, .dtype = kInt64};
  const GetVariableOptions normal{.shape = small, .initializer = nn::he_normal()};
  expect_one_line_here(graph, [&] { Variable(1.f); });
  expect_one_line_here(graph, [&] { Variable(Tensor({1.f, 2.f})); });
  expect_one_line_here(graph, [&] { const Variable made(one); });
  expect_one_line_here(graph, [&] { local_variable(one); });
  expect_one_line_here(graph, [&] { get_variable("glorot", glorot); });
  expect_one_line_here(graph, [&] { get_variable("counted", counted); });
  expect_one_line_here(graph, [&] { get_variable("normal", normal); });
  expect_one_line_here(graph, [&] { global_step(); });
  expect_one_line_here(graph, [&] { nn::Dense(2, 3); });
  expect_one_line_here(graph, [&] { nn::Conv2d(1, 2, 3); });
  expect_one_line_here(graph, [&] { nn::BatchNorm(2); });
  expect_one_line_here(graph, [&] { nn::LayerNorm(2); });
  expect_one_line_here(graph, [&] { nn::Embedding(2, 3); });
}

TEST(Places, OfTheUsersOwnInitializersAreTheirs) {
  Graph graph;
  const auto building = graph.as_default();
  const int line = __LINE__ + 1;
  const auto own = [](const Shape& shape, DType dtype) { return exp(ones(shape, dtype)); };
  get_variable("named", {.shape = {2}, .initializer = own});
  const nn::Dense dense(2, 3, {.kernel_initializer = own});
  std::set<int> lines;
  for (const NodeInfo& node : graph.nodes()) {
    if (node.op == "Exp") lines.insert(node.site.line);
  }
  EXPECT_EQ(lines, std::set<int>{line});
}

TEST(Places, OfANewVariableAreInErrorsOfItsPlacement) {
  Graph graph;
  const auto building = graph.as_default();
  Variable far;
  const int line = __LINE__ + 3;
  {
    const DeviceScope there("/job:ps/task:3");
    far = Variable(1.f, {.name = "far"});
  }
  const Tensor read = far.read_value();
  Session session;
  EXPECT_ERROR(Code::InvalidArgument, "graph_variable_test.cc:" + std::to_string(line),
               session.run(read));
}

TEST(Places, OfMetricsAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor values = placeholder(kFloat32, {4});
  const Tensor labels = placeholder(kInt64, {4});
  const Tensor scores = placeholder(kFloat32, {4, 3});
  const int first = static_cast<int>(graph.size());
  metrics::Mean mean;
  metrics::Accuracy accuracy;
  metrics::SparseCategoricalAccuracy sparse;
  metrics::Auc auc;
  EXPECT_EQ(makers(graph, first), kThisFile);
  expect_one_line_here(graph, [&] { mean.update(values); });
  expect_one_line_here(graph, [&] { mean.update(values, values); });
  expect_one_line_here(graph, [&] { accuracy.update(labels, labels); });
  expect_one_line_here(graph, [&] { sparse.update(labels, scores); });
  expect_one_line_here(graph, [&] { auc.update(values, values); });
  expect_one_line_here(graph, [&] { mean.reset(); });
}

TEST(Places, OfClippedGradientsAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Gradients gradients{placeholder(kFloat32, {2})};
  expect_one_line_here(graph, [&] { optim::clip_by_value(gradients, 1); });
  expect_one_line_here(graph, [&] { optim::clip_by_norm(gradients, 1); });
  expect_one_line_here(graph, [&] { optim::clip_by_global_norm(gradients, 1); });
  expect_one_line_here(graph, [&] { optim::global_norm(gradients); });
}

TEST(Places, OfQuestionsAboutVariablesAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const std::vector<Variable> variables{Variable(1.f)};
  local_variable(Initializer([] { return Tensor(1.f); }));
  const optim::Sgd sgd;
  expect_one_line_here(graph, [&] { is_variable_initialized(variables[0]); });
  expect_one_line_here(graph, [&] { report_uninitialized_variables(variables); });
  expect_one_line_here(graph, [&] { report_uninitialized_variables(); });
  expect_one_line_here(graph, [&] { global_variables_initializer(); });
  expect_one_line_here(graph, [&] { local_variables_initializer(); });
  expect_one_line_here(graph, [&] { sgd.iterations(); });
}

TEST(Places, OfAnUpdateAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, Shape::unknown());
  Variable v(Tensor({1.f, 2.f}));
  optim::Sgd sgd;
  const int line = __LINE__ + 1;
  const Tensor train = sgd.apply_gradients({Gradient(fed)}, {v});
  Session session;
  session.run(global_variables_initializer());
  EXPECT_ERROR(Code::InvalidArgument, "graph_variable_test.cc:" + std::to_string(line),
               session.run(train, {{fed, Tensor({1.f, 1.f, 1.f})}}));
}

TEST(Places, OfAllThatMinimizeMakesAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(Tensor({1.f, 2.f}));
  const Tensor loss = sum(square(v));
  optim::Adam adam({.learning_rate = optim::exponential_decay({}), .clipping = {.norm = 1}});
  const int first = static_cast<int>(graph.size());
  adam.minimize(loss, {v});
  EXPECT_EQ(makers(graph, first), kThisFile);
}

TEST(Places, OfLayersAreTheCallersLine) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 4});
  const Tensor image = placeholder(kFloat32, {-1, 1, 8, 8});
  const Tensor ids = placeholder(kInt64, {-1});
  const nn::Dense sized(4, 2, {.activation = nn::leaky_relu, .use_bias = false});
  const nn::LayerNorm norm(4);
  const nn::Embedding embedding(3, 2);
  const int first = static_cast<int>(graph.size());
  sized(x);
  norm(x);
  embedding(ids);
  nn::Dense(2, {.activation = nn::relu})(x);
  nn::Conv2d(2, 3, {.activation = nn::relu})(image);
  nn::MaxPool2d(2)(image);
  nn::AvgPool2d(2)(image);
  nn::Flatten()(image);
  nn::Dropout()(x);
  nn::BatchNorm()(x);
  nn::LayerNorm()(x);
  nn::BatchNorm({.formula = Formula::TensorFlow})(x);
  nn::Sequential{nn::Dense(3), nn::relu, nn::softmax, nn::BatchNorm(), nn::Dense(1)}(x);
  EXPECT_EQ(makers(graph, first), kThisFile);
}

TEST(Places, OfALayersNodeNameTheCallInAnError) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, Shape::unknown());
  const nn::Sequential model{nn::Dense(2, 1), nn::relu};
  const int line = __LINE__ + 1;
  const Tensor y = model(fed);
  Session session;
  session.run(global_variables_initializer());
  EXPECT_ERROR(Code::InvalidArgument, "graph_variable_test.cc:" + std::to_string(line),
               session.run(y, {{fed, Tensor({{1.f, 1.f, 1.f}})}}));
}

TEST(Places, OfTheUsersOwnScheduleAreItsLines) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(1.f);
  const int line = __LINE__ + 1;
  const optim::Schedule own = [](const Tensor& step) { return exp(cast(step, kFloat32)); };
  optim::Sgd sgd({.learning_rate = own});
  sgd.minimize(square(v), {v});
  std::set<int> lines;
  for (const NodeInfo& node : graph.nodes()) {
    if (node.op == "Exp") lines.insert(node.site.line);
  }
  EXPECT_EQ(lines, std::set<int>{line});
}

TEST(Places, OfTheUsersOwnFunctionsAreTheirs) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor fed = placeholder(kFloat32, {2});
  const int line = __LINE__ + 1;
  const auto own = [](const Tensor& x) { return exp(x); };
  const nn::Sequential model{own, nn::relu};
  const int first = static_cast<int>(graph.size());
  model(fed);
  EXPECT_EQ(internal::GraphAccess::impl(graph)->node(first).site.line, line);
}

}  // namespace
}  // namespace cohort
