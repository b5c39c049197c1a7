// Who clicks on what: two sparse features of 100,000 ids each, whose tables of 16 numbers per id
// are cut over the parameter servers. Only the rows of a batch travel. One program for every role,
// see
// ../parameter_server/README.md.

#include <cohort/cohort.h>

#include <cstdio>
#include <cstdlib>

using namespace cohort;

namespace {

constexpr int64_t kIds = 100'000;
constexpr int64_t kWidth = 16;
constexpr int kBatch = 256;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Made up on the workers: popular users and items are drawn more often, and people click on items
// whose parity is their own.
struct Batch {
  Tensor users, items, clicked;

  Batch() : users(draw()), items(draw()) {
    const auto parity = [](const Tensor& ids) { return cast(ids, kInt64) % Tensor(int64_t{2}); };
    clicked = cast(equal(parity(users), parity(items)), kFloat32);
  }
  static Tensor draw() {
    const Tensor u = random::uniform({kBatch});
    const Tensor cubed = u * u * u;
    return cast(cubed * cubed * static_cast<float>(kIds - 1), kInt64);
  }
};

struct Model {
  Variable users = table("users"), items = table("items");
  optim::Adagrad optimizer{{.learning_rate = 0.3}};

  static Variable table(const std::string& name) {
    return Variable([] { return random::normal({kIds, kWidth}, {.stddev = 0.3}); }, {.name = name});
  }
  Tensor train(const Batch& batch) {
    GradientTape tape;
    const Tensor score =
        sum(nn::embedding_lookup(users, batch.users) * nn::embedding_lookup(items, batch.items), 1);
    const Tensor loss = nn::sigmoid_cross_entropy(score, batch.clicked);
    const std::vector<Variable> tables{users, items};
    optimizer.apply_gradients(tape.gradient(loss, tables), tables);
    return loss;
  }
};

void run_chief(const ClusterResolver& resolver) {
  ParameterServerStrategy strategy(resolver,
                                   {.variable_partitioner = MinSizePartitioner{{.max_shards = 4}}});
  auto model = strategy.create([] { return std::make_unique<Model>(); });
  ClusterCoordinator coordinator(strategy);
  const auto step = function([&] { return strategy.run([&] { return model->train(Batch()); }); });
  const int steps = setting("STEPS", 2000);
  for (int done = 0; done < steps; done += 200) {
    std::vector<RemoteValue<PerReplica<Tensor>>> losses;
    for (int i = 0; i < 200; ++i) losses.push_back(coordinator.schedule(step));
    double sum = 0;
    for (const auto& loss : coordinator.fetch(losses)) sum += loss.value().to<float>();
    std::printf("steps %d  loss %.4f\n", done + 200, sum / 200);
    std::fflush(stdout);
  }
  std::printf("%s", strategy.plan().to_string().c_str());
  coordinator.shutdown_cluster();
}

void run() {
  const TFConfigClusterResolver resolver;
  const std::string type = resolver.task_type().value_or("");
  if (type != "worker" && type != "ps") return run_chief(resolver);
  Server(resolver.cluster_spec(), {.job_name = type, .task_index = resolver.task_id().value_or(0)})
      .join();
}

}  // namespace

int main() {
  const Status status = capture_status(run);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
