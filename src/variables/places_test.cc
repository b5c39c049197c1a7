// The lines that nodes are made at, for public calls which add nodes. A new call is one line of a
// table.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

std::string name_of_file(const char* path) { return std::filesystem::path(path).filename(); }

// Calls of which no node has a line.
bool adds_no_line(const std::string& name) {
  static const std::set<std::string> all{"Tensor of sharded"};  // a conversion takes no Site
  return all.contains(name);
}

// Makes the call and expects that nodes which it adds and which have a line name this file. The
// library's own lines are in files of other names. At least one node has a line.
void expect_made_here(const std::string& name, const std::function<void()>& call) {
  const Graph graph = get_default_graph();
  const size_t first = graph.size();
  const Status status = capture_status(call);
  EXPECT_TRUE(status.ok()) << name << ": " << status.to_string();
  const std::vector<NodeInfo> nodes = graph.nodes();
  size_t with_line = 0;
  for (size_t i = first; i < nodes.size(); ++i) {
    const Site site = nodes[i].site;
    if (site.line == 0) continue;
    ++with_line;
    EXPECT_EQ(name_of_file(site.file), name_of_file(__FILE__))
        << name << ": " << nodes[i].op << " is made at " << site.file << ":" << site.line;
  }
  EXPECT_EQ(with_line == 0, adds_no_line(name))
      << name << ": " << with_line << " of " << nodes.size() - first << " nodes have a line";
}

// What the calls use.
struct ModelOfCalls {
  Variable w{zeros({2, 3}), {.name = "w"}};
  Variable v{{1.f, 2.f}, {.name = "v"}};
  ShardedVariable table{{Variable(zeros({4, 2})), Variable(zeros({4, 2}))}, "table"};
  nn::StringLookup lookup{{"a", "b"}};
  nn::StringLookup strict_lookup{{"a", "b"}, {.num_oov_indices = 0}};
  nn::Embedding embedding{8, 2};
  nn::Dense regular{2, 3, {.kernel_regularizer = nn::l2(), .bias_regularizer = nn::l1_l2()}};
  nn::Conv2d conv{1, 2, 3};
  nn::BatchNorm norm{2};
  nn::LayerNorm layer_norm{2};
  metrics::Mean mean;
  metrics::Auc auc{{.thresholds = 5}};
  optim::Sgd sgd{{.learning_rate = optim::warmup(5, optim::cosine_decay({.initial_rate = 0.1}))}};
};

// The inputs of the calls.
struct InputsOfCalls {
  Tensor x;       // (4, 2) float32
  Tensor labels;  // (4,) int64
  Tensor words;   // (4,) strings
};

struct PublicCall {
  std::string name;
  std::function<void()> make;
};

std::vector<Tensor> doubled_by_custom_gradient(const Tensor& x) {
  return custom_gradient(
      [](std::span<const Tensor> in) {
        return WithGradient{{in[0]}, [](std::span<const Tensor> d) {
                              return Gradients{Gradient(exp(d[0]) * 2.f)};
                            }};
      },
      {x});
}

Gradient slope_of(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(sum(square(f(x))), x);
}

// The calls that sessions' graphs and traced functions both take.
std::vector<PublicCall> calls_with(ModelOfCalls& model, const InputsOfCalls& given) {
  const Tensor x = given.x;
  const Tensor labels = given.labels;
  const Tensor words = given.words;
  const Tensor p = sigmoid(x);
  const IndexedSlices rows{zeros({1, 2}), Tensor({int64_t{1}}), Shape{8, 2}};
  const std::vector<Variable> of_norm = model.norm.trainable_variables();
  return {
      {"x + 1", [=] { x + 1; }},
      {"1 - x * 2.0", [=] { 1 - x * 2.0; }},
      {"x < 2", [=] { x < 2; }},
      {"x[0]", [=] { x[0]; }},
      {"labels / 2", [=] { labels / 2; }},
      {"x * labels of another dtype", [=] { mul(x, cast(labels[0], kInt32)); }},
      {"where", [=] { where(x > 0.f, x, 0); }},
      {"concat of two dtypes",
       [=] {
         concat({x, cast(x, kFloat64)}, 0);
       }},
      {"mean of integers", [=] { mean(labels); }},
      {"clip", [=] { clip(x, 0.0, 1.0); }},
      {"top_k", [=] { top_k(x, 1); }},
      {"cond",
       [=] {
         cond(
             sum(x) > 0.f, [=] { return x * 2.f; }, [=] { return square(x); });
       }},
      {"random::uniform",
       [] {
         random::uniform({2, 2});
       }},
      {"random::shuffle", [=] { random::shuffle(x); }},
      {"dropout", [=] { nn::dropout(x); }},
      {"softmax_cross_entropy", [=] { nn::softmax_cross_entropy(x, labels % int64_t{2}); }},
      {"softmax_cross_entropy of shares", [=] { nn::softmax_cross_entropy(x, p); }},
      {"sigmoid_cross_entropy", [=] { nn::sigmoid_cross_entropy(x, x > 0.f); }},
      {"binary_cross_entropy", [=] { nn::binary_cross_entropy(p, x > 0.f); }},
      {"mean_squared_error", [=] { nn::mean_squared_error(x, p); }},
      {"compute_average_loss", [=] { nn::compute_average_loss(sum(x, {1})); }},
      {"compute_average_loss with weights",
       [=] { nn::compute_average_loss(x, {.sample_weight = cast(labels, kFloat32)}); }},
      {"scale_regularization_loss",
       [=] {
         nn::scale_regularization_loss({sum(x), sum(p)});
       }},
      {"variable.read_value", [&] { model.v.read_value(); }},
      {"variable.value", [&] { model.v.value(); }},
      {"variable[0]", [&] { model.v[0]; }},
      {"variable.assign",
       [&] {
         model.v.assign({3.f, 4.f});
       }},
      {"variable.assign_add", [&] { model.v.assign_add(1); }},
      {"sharded.read_value", [&] { model.table.read_value(); }},
      {"Tensor of sharded", [&] { const Tensor whole = model.table; }},
      {"sharded[1]", [&] { model.table[1]; }},
      {"sharded.slice", [&] { model.table.slice({{.begin = 1, .end = 3}}); }},
      {"sharded.sparse_read", [&, labels] { model.table.sparse_read(labels); }},
      {"sharded.assign_add",
       [&] {
         model.table.assign_add(zeros({8, 2}));
       }},
      {"sharded.scatter_add", [&, rows] { model.table.scatter_add(rows); }},
      {"embedding_lookup of sharded", [&, labels] { nn::embedding_lookup(model.table, labels); }},
      {"Embedding", [&, labels] { model.embedding(labels); }},
      {"Dense", [&, x] { model.regular(x); }},
      {"Conv2d",
       [&, x] {
         model.conv(reshape(tile(x, {8, 1}), {1, 1, 8, 8}));
       }},
      {"BatchNorm", [&, x] { model.norm(x); }},
      {"LayerNorm", [&, x] { model.layer_norm(x); }},
      {"Module::losses", [&] { model.regular.losses(); }},
      {"a regularizer", [=] { nn::l1_l2()(x); }},
      {"StringLookup", [&, words] { model.lookup(words); }},
      {"StringLookup without unknowns", [&, words] { model.strict_lookup(words); }},
      {"StringLookup::inverse", [&, labels] { model.lookup.inverse(labels); }},
      {"IndexedSlices::to_dense", [=] { rows.to_dense(); }},
      {"Gradient::dense", [=] { Gradient(rows).dense(); }},
      {"Mean::update", [&, x] { model.mean.update(x); }},
      {"Mean::result", [&] { model.mean.result(); }},
      {"Auc::update", [&, p] { model.auc.update(p > 0.5f, p); }},
      {"Auc::result", [&] { model.auc.result(); }},
      {"gradients", [=] { gradients({sum(square(x))}, std::vector<Tensor>{x}); }},
      {"tape.gradient of matmul",
       [&, x] { slope_of(x, [&](const Tensor& in) { return matmul(in, model.w); }); }},
      {"tape.gradient of cond",
       [=] {
         slope_of(x, [](const Tensor& in) {
           return cond(
               sum(in) > 0.f, [=] { return in * 2.f; }, [=] { return square(in); });
         });
       }},
      {"tape.gradient of variables",
       [&, x, of_norm] {
         GradientTape tape;
         const Tensor loss = sum(square(model.norm(x)));
         tape.gradient(loss, of_norm);
       }},
      {"tape.gradient of a custom gradient",
       [=] { slope_of(x, [](const Tensor& in) { return doubled_by_custom_gradient(in)[0]; }); }},
      {"tape.watch", [&] { GradientTape().watch(model.v); }},
      {"global_norm",
       [=] {
         optim::global_norm({Gradient(x), Gradient(rows)});
       }},
      {"optimizer.minimize of a function",
       [&, x] { model.sgd.minimize([&] { return sum(square(matmul(x, model.w))); }, {model.w}); }},
      {"optimizer.learning_rate", [&] { model.sgd.learning_rate(); }},
      {"function(f) called", [=] { function([](Tensor in) { return exp(in); })(x); }},
  };
}

// The calls that only sessions' graphs take.
std::vector<PublicCall> calls_of_graphs(ModelOfCalls& model, const InputsOfCalls& given) {
  const Tensor x = given.x;
  const Variable step = global_step();
  return {
      {"Variable", [] { const Variable made(1.f); }},
      {"get_variable",
       [] {
         get_variable("named", {.shape = {2, 2}});
       }},
      {"gradients of variables",
       [&, x] { gradients({sum(square(matmul(x, model.w)))}, std::vector<Variable>{model.w}); }},
      {"gradients of sharded",
       [&, given] {
         const std::vector<Variable> sources{model.table, model.w};
         gradients({sum(nn::embedding_lookup(model.table, given.labels))}, sources,
                   {.unconnected = Unconnected::Zero});
       }},
      {"gradients of conv2d",
       [&, x] {
         const Tensor image = reshape(tile(x, {8, 1}), {1, 1, 8, 8});
         gradients({sum(square(nn::relu(model.conv(image))))}, model.conv.variables());
       }},
      {"gradients of while_loop",
       [=] {
         const auto small = [](std::span<const Tensor> s) { return sum(s[0]) < 100.f; };
         const auto doubled = [](std::span<const Tensor> s) { return std::vector{s[0] * 2.f}; };
         gradients({sum(while_loop(small, doubled, {x})[0])}, std::vector<Tensor>{x});
       }},
      {"optimizer.minimize",
       [&, x, step] {
         optim::Adam adam;
         adam.minimize(sum(square(matmul(x, model.w))), {model.w}, step);
       }},
      {"optimizer.minimize with momentum",
       [&, x, step] {
         optim::Sgd momentum({.momentum = 0.9});
         momentum.minimize(sum(square(matmul(x, model.w))), {model.w}, step);
       }},
      {"SyncReplicasOptimizer",
       [&, x, step] {
         optim::Sgd sgd;
         SyncReplicasOptimizer synchronous(
             sgd, {.worker_index = 0, .after_update = [] { return constant(1.f); }});
         synchronous.minimize(sum(square(matmul(x, model.w))), {model.w}, step);
         synchronous.get_init_tokens_op();
         synchronous.make_session_run_hook(true);
       }},
      {"FifoQueue",
       [] {
         FifoQueue queue({.components = {{kFloat32, Shape{}}}});
         queue.enqueue({Tensor(1.f)});
         queue.dequeue_many(2);
         queue.size();
         queue.close();
       }},
      {"ConditionalAccumulator",
       [] {
         ConditionalAccumulator sums({.shape = {2}});
         sums.apply_gradient(Tensor({1.f, 2.f}), int64_t{0});
         sums.take_gradient(int64_t{1});
       }},
      {"summary::scalar", [=] { summary::scalar("sum", sum(x)); }},
      {"Saver",
       [&] {
         const Saver saver({model.w, model.v, Variable(model.table)});
       }},
      {"Saver of all variables", [] { const Saver saver; }},
      {"initializers",
       [] {
         global_variables_initializer();
         local_variables_initializer();
         report_uninitialized_variables();
       }},
  };
}

TEST(Places, OfPublicCallsInAGraphAreNotInTheLibrary) {
  Graph graph;
  const auto building = graph.as_default();
  std::optional<ModelOfCalls> model;
  expect_made_here("a model", [&] { model.emplace(); });
  const InputsOfCalls inputs{placeholder(kFloat32, {4, 2}), placeholder(kInt64, {4}),
                             placeholder(kString, {4})};
  for (const PublicCall& call : calls_with(*model, inputs)) expect_made_here(call.name, call.make);
  for (const PublicCall& call : calls_of_graphs(*model, inputs)) {
    expect_made_here(call.name, call.make);
  }
}

TEST(Places, OfPublicCallsInATracedFunctionAreNotInTheLibrary) {
  ModelOfCalls model;
  const auto traced = function([&](Tensor x, Tensor labels, Tensor words) {
    for (const PublicCall& call : calls_with(model, {x, labels, words})) {
      expect_made_here(call.name, call.make);
    }
    return x;
  });
  traced(ones({4, 2}), Tensor({int64_t{0}, int64_t{1}, int64_t{0}, int64_t{1}}),
         Tensor({"a", "b", "a", "b"}));
}

// What the calls of a strategy use.
struct ReplicatedModel {
  Variable v{{1.f, 2.f}, {.name = "v"}};
  Variable sum{1.f,
               {.synchronization = VariableSynchronization::OnRead,
                .aggregation = VariableAggregation::Sum}};
  metrics::Mean mean;
  nn::Dense dense{2, 2};
  optim::Adam adam;
};

Tensor replicated_step(ReplicatedModel& model, const Tensor& x) {
  GradientTape tape;
  const Tensor losses = sum(square(model.dense(x)), 1);
  const Tensor loss = nn::compute_average_loss(losses, {.global_batch_size = 8});
  const std::vector<Variable> variables = model.dense.trainable_variables();
  model.adam.apply_gradients(tape.gradient(loss, variables), variables);
  model.mean.update(loss);
  return loss;
}

std::vector<PublicCall> calls_of_strategies(Strategy& strategy, ReplicatedModel& model,
                                            const Tensor& x) {
  const auto same = [=] { return x; };
  const auto summed = [=] { return get_replica_context()->all_reduce(ReduceOp::Sum, x); };
  const auto gathered = [=] { return get_replica_context()->all_gather(x, 0); };
  return {
      {"variable.read_value", [&] { model.v.read_value(); }},
      {"variable.assign_add", [&, x] { model.v.assign_add(x[0]); }},
      {"read_value of a sum", [&] { model.sum.read_value(); }},
      {"Mean::update", [&, x] { model.mean.update(x); }},
      {"Mean::result", [&] { model.mean.result(); }},
      {"all_reduce", [&, summed] { strategy.run(summed); }},
      {"all_gather", [&, gathered] { strategy.run(gathered); }},
      {"reduce", [&, same] { strategy.reduce(ReduceOp::Sum, strategy.run(same)); }},
      {"reduce along an axis",
       [&, same] { strategy.reduce(ReduceOp::Mean, strategy.run(same), 0); }},
      {"gather", [&, same] { strategy.gather(strategy.run(same), 0); }},
      {"a step", [&, x] { strategy.run([&] { return replicated_step(model, x); }); }},
  };
}

TEST(Places, OfCallsOfAStrategyAreNotInTheLibrary) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  ReplicatedModel model;
  const auto traced = function([&](Tensor x) {
    for (const PublicCall& call : calls_of_strategies(strategy, model, x)) {
      expect_made_here(call.name, call.make);
    }
    return x;
  });
  traced(ones({2, 2}));
}

TEST(Places, OfWhatSessionsAddAreNotInTheLibrary) {
  const TemporaryDirectory directory;
  Graph graph;
  const auto building = graph.as_default();
  const Variable v(1.f);
  const Variable step = global_step();
  expect_made_here("Supervisor", [&] { const Supervisor made({.logdir = directory.path()}); });
  expect_made_here("MonitoredTrainingSession", [&] {
    MonitoredTrainingSession session({.checkpoint_dir = directory.path()});
    session.close();
  });
}

}  // namespace
}  // namespace cohort
