// Training of an MLP on Fashion-MNIST: two workers that share variables on a ps and do not wait for
// each other, beside two replicas of a MirroredStrategy.

#include <thread>

#include "cohort/queue.h"
#include "models.h"
#include "parts.h"
#include "ratio.h"

namespace cohort::bench {
namespace {

constexpr int kReplicas = 2;
constexpr int64_t kBatch = 128;
constexpr int kBatches = 20;  // that are used in turn
constexpr int kSteps = 100;   // of each replica, per measurement
constexpr char kData[] = "/usr/share/datasets/fashion-mnist/train";

struct Batch {
  Tensor images, labels;
};

// Batches of the examples that replica `index` uses.
std::vector<Batch> batches_for(int index) {
  const Tensor images =
      reshape(data::read_idx(std::string(kData) + "-images-idx3-ubyte.gz"), {-1, 784});
  const Tensor labels = data::read_idx(std::string(kData) + "-labels-idx1-ubyte.gz");
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) {
    const int64_t from = (i * kReplicas + index) * kBatch;
    batches.push_back(
        {slice(images, {{from, from + kBatch}}), slice(labels, {{from, from + kBatch}})});
  }
  return batches;
}

Tensor pixels(const Tensor& images) { return cast(images, kFloat32) / 255.f; }

// By this the benchmark tells its workers up to which global step to train, and they that they did.
FifoQueue signals(const char* name) {
  auto on = device("/job:ps/task:0");
  return FifoQueue({.components = {{kInt64, {}}}, .name = name, .shared_name = name});
}

// One worker's graph.
struct Tower {
  Graph graph;
  Tensor images, labels, update, step, initialize, missing, go, done;

  explicit Tower(int index) {
    auto building = graph.as_default();
    go = signals("go").dequeue()[0];
    done = signals("done").enqueue({Tensor(int64_t{1})});
    auto on = device([index](const DeviceRequest& node) {
      return node.op == "VariableHandle" ? std::string("/job:ps/task:0")
                                         : "/job:worker/task:" + std::to_string(index);
    });
    images = placeholder(kUInt8, {kBatch, 784});
    labels = placeholder(kUInt8, {kBatch});
    const Tensor hidden = nn::relu(dense("first", pixels(images), {784, 512}));
    const Tensor more = nn::relu(dense("second", hidden, {512, 512}));
    const Tensor loss = nn::softmax_cross_entropy(dense("last", more, {512, 10}), labels);
    update = optim::Sgd({.learning_rate = 0.01}).minimize(loss, {}, global_step());
    step = global_step().read_value();
    initialize = global_variables_initializer();
    missing = report_uninitialized_variables();
  }

  static Tensor dense(const std::string& name, const Tensor& x, const Shape& shape) {
    const NameScope scope(name);
    const Variable kernel = get_variable("kernel", {.shape = shape});
    const Variable bias = get_variable("bias", {.shape = {shape[1]}, .initializer = zeros()});
    return matmul(x, kernel) + bias;
  }
};

// Two worker processes and a ps.
class Cluster {
 public:
  Cluster() : spec_(test::free_cluster(1, kReplicas)) {
    start({"ps", "0"});
    for (int i = 0; i < kReplicas; ++i) start({"worker", std::to_string(i), "train"});
    auto building = graph_.as_default();
    last_step_ = placeholder(kInt64, {kReplicas});
    go_ = signals("go").enqueue_many({last_step_});
    done_ = signals("done").dequeue_many(kReplicas)[0];
    building.close();
    session_ = std::make_unique<Session>(graph_, "grpc://" + spec_.task_address("ps", 0));
  }
  // As many as kSteps of each: who is faster makes more of them, as asynchronous workers do.
  void steps() {
    steps_ += kReplicas * kSteps;
    session_->run(go_, {{last_step_, Tensor::from(std::vector<int64_t>(kReplicas, steps_))}});
    session_->run(done_, {}, {.timeout = std::chrono::seconds(60)});
  }

 private:
  void start(const std::vector<std::string>& role) {
    std::string workers;
    for (int i = 0; i < kReplicas; ++i) {
      workers += (i == 0 ? "" : ",") + spec_.task_address("worker", i);
    }
    std::vector<std::string> words{own_path(), spec_.task_address("ps", 0), workers};
    words.insert(words.end(), role.begin(), role.end());
    tasks_.push_back(std::make_unique<test::Process>(words));
  }

  const ClusterSpec spec_;
  std::vector<std::unique_ptr<test::Process>> tasks_;
  Graph graph_;
  Tensor last_step_, go_, done_;
  int64_t steps_ = 0;
  std::unique_ptr<Session> session_;
};

class Mirrored {
 public:
  Mirrored()
      : strategy_({"CPU:0", "CPU:1"}),
        model_(strategy_.create([] { return mlp(); })),
        optimizer_(strategy_.create([] { return optim::Sgd({.learning_rate = 0.01}); })) {
    std::vector<std::vector<Batch>> all;
    for (int i = 0; i < kReplicas; ++i) all.push_back(batches_for(i));
    for (size_t i = 0; i < kBatches; ++i) {
      images_.push_back(strategy_.distribute_values_from_function([&](ValueContext context) {
        return all[static_cast<size_t>(context.replica_id_in_sync_group)][i].images;
      }));
      labels_.push_back(strategy_.distribute_values_from_function([&](ValueContext context) {
        return all[static_cast<size_t>(context.replica_id_in_sync_group)][i].labels;
      }));
    }
  }
  void steps() {
    const auto train = [&](const Tensor& images, const Tensor& labels) {
      GradientTape tape;
      const Tensor loss = nn::softmax_cross_entropy(model_(pixels(images)), labels);
      optimizer_.apply_gradients(tape.gradient(loss, model_.variables()), model_.variables());
    };
    for (size_t i = 0; i < kSteps; ++i) {
      strategy_.run(train, images_[i % kBatches], labels_[i % kBatches]);
    }
  }

 private:
  MirroredStrategy strategy_;
  nn::Sequential model_;
  optim::Sgd optimizer_;
  std::vector<PerReplica<Tensor>> images_;
  std::vector<PerReplica<Tensor>> labels_;
};

}  // namespace

void train_worker(const ClusterSpec& cluster, int index) {
  const Server server(cluster, {.job_name = "worker", .task_index = index});
  const std::vector<Batch> batches = batches_for(index);
  const Tower tower(index);
  Session session(tower.graph, server.target());
  if (index == 0) session.run(tower.initialize);
  // The others wait for that.
  while (session.run(tower.missing).size() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Callable step =
      session.make_callable({tower.images, tower.labels}, {tower.step, tower.update});
  for (size_t i = 0;;) {
    const int64_t last = session.run(tower.go).to<int64_t>();
    int64_t now = 0;
    while (now < last) {
      const Batch& batch = batches[i++ % kBatches];
      now = step({batch.images, batch.labels})[0].to<int64_t>();
    }
    session.run(tower.done);
  }
}

void training() {
  Mirrored theirs;
  Cluster ours;
  run({.name = "1 ps + 2 workers, MLP, over Mirrored",
       .ours = [&] { ours.steps(); },
       .theirs = [&] { theirs.steps(); },
       .rounds = 7,
       .limit = 1 / 0.7});
}

}  // namespace cohort::bench
